/* protocol.h - env-cern as an environment of the line protocol (env/proto.h). */
#ifndef SPAR_ENV_CERN_PROTOCOL_H
#define SPAR_ENV_CERN_PROTOCOL_H

#include "env/proto.h"

extern const struct spar_proto_env spar_cern_protocol;

#endif
