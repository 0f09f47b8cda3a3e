/* pay.h - what a step of env-osint is paid, by profile. Each function adds named parts to the episode's last step. */
#ifndef SPAR_ENV_OSINT_PAY_H
#define SPAR_ENV_OSINT_PAY_H

#include "env/osint/episode.h"

/*! An action that was refused: parse, action, parameter or precondition; `duplicate`: an edge that is there already. */
void spar_osint_pay_refusal(struct spar_osint_episode *e, bool duplicate);
/*! A tool call; it is the last of e->calls. `again`: the same call was made before. */
void spar_osint_pay_call(struct spar_osint_episode *e, bool again);
/*! An edge was added: the last of e->working. */
void spar_osint_pay_edge(struct spar_osint_episode *e);
/*! The answer, or none ("") when the steps ran out. `c` holds the edges added too. */
void spar_osint_pay_answer(struct spar_osint_episode *e, const struct spar_osint_claim *c);
void spar_osint_pay_proposal(struct spar_osint_episode *e);
/*! The steps ran out. */
void spar_osint_pay_timeout(struct spar_osint_episode *e, const struct spar_osint_claim *c);

#endif
