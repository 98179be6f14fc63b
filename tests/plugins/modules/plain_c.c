/* A plugin in C: the first tokens are kept. */

#include <kvloupe/policy_plugin.h>
#include <stddef.h>

static int32_t create(void* context, const kvloupe_layer* layer, const kvloupe_value* values,
                      kvloupe_protection* protection, void** object, char* error) {
  (void)context, (void)layer, (void)values, (void)protection, (void)error;
  *object = NULL; /* it has no state */
  return 0;
}

static int32_t score(void* object, const kvloupe_step* step, int32_t head, float* scores,
                     char* error) {
  (void)object, (void)error;
  for (int32_t i = 0; i < step->caches[head].entries; ++i) {
    scores[i] = -(float)step->caches[head].tokens[i];
  }
  return 0;
}

static void destroy(void* object) { (void)object; }

static int32_t register_scores(const kvloupe_host* host, char* error) {
  kvloupe_score first = {0};
  first.size = sizeof first;
  first.name = "c_first";
  first.summary = "the first tokens are kept";
  first.formula = "score_i = -i";
  first.source = "a test of kvloupe in C";
  first.create = create;
  first.score = score;
  first.destroy = destroy;
  return host->add_score(host, &first, error);
}

const kvloupe_plugin kvloupe_policy_plugin = {KVLOUPE_POLICY_INTERFACE, sizeof(kvloupe_plugin),
                                              "plain C", register_scores};
