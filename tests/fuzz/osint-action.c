/* osint-action.c - whatever a model writes, in either role, gets a reward within its bounds and a view that is JSON. */
#include "base/json.h"
#include "env/action.h"
#include "env/osint/episode.h"
#include "fuzz.h"

static void play(const struct spar_osint_game *game, const uint8_t *data, size_t n)
{
	struct spar_osint_episode e = {0};
	struct spar_proto_reset how = {1, SPAR_OSINT_HARD, 2, jv_object()};
	struct spar_str view = SPAR_STR_INIT;
	if (spar_osint_episode_reset(&e, game, &how, NULL) < 0)
		abort();
	while (!e.end)
		spar_osint_episode_step(&e, spar_action_find((const char *)data, n));
	spar_str_addc(&view, '{');
	spar_osint_episode_view(&e, true, &view);
	spar_str_addc(&view, '}');
	if (spar_json_skip(view.data, view.len, 256, false, NULL, NULL) != view.len || !(e.total >= -1 && e.total <= 2))
		abort();
	spar_str_release(&view);
	spar_osint_episode_release(&e);
	jv_free(how.options);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct spar_osint_game game = SPAR_OSINT_GAME;
	play(&game, data, n);
	game.profile = SPAR_OSINT_REFERENCE;
	play(&game, data, n);
	game.role = SPAR_OSINT_GENERATOR;
	play(&game, data, n);
	return 0;
}
