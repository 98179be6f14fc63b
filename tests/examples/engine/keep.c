/* What a policy keeps of a cache with random keys: kvloupe's engine from C.
     cc keep.c -I PREFIX/include -L PREFIX/lib -lkvloupe_engine -Wl,-rpath,PREFIX/lib -o keep
     ./keep "keydiff+recent(25%)" 8 */
#include <kvloupe/kvloupe_engine.h>
#include <stdio.h>
#include <stdlib.h>

enum { HEADS = 2, CHANNELS = 16, BLOCK = 12, STEPS = 3 };

int main(int count, char** words) {
  char error[KVLOUPE_ENGINE_ERROR_BYTES];
  if (count != 3 || kvloupe_engine_interface() != KVLOUPE_ENGINE_INTERFACE) {
    fprintf(stderr, "usage: keep POLICY BUDGET\n");
    return 2;
  }
  kvloupe_engine_layer layer = {.size = sizeof layer};
  layer.layers = 1;
  layer.heads = layer.query_heads = HEADS;
  layer.key_dim = layer.value_dim = CHANNELS;
  layer.budget = atoi(words[2]);
  layer.rope_theta = 10000.0;
  layer.attention_scale = 0.25; /* 1/sqrt(16) */
  kvloupe_engine_policy* policy = NULL;
  if (kvloupe_engine_policy_create(words[1], &layer, &policy, error) != KVLOUPE_ENGINE_DONE) {
    fprintf(stderr, "keep: %s\n", error);
    return 1;
  }
  static float states[HEADS][BLOCK][CHANNELS];
  srand(1);
  int status = KVLOUPE_ENGINE_DONE;
  for (int step = 0; step < STEPS && status == KVLOUPE_ENGINE_DONE; ++step) {
    for (float* number = &states[0][0][0];
         number < &states[0][0][0] + sizeof states / sizeof(float); ++number) {
      *number = (float)rand() / (float)RAND_MAX - 0.5f;
    }
    kvloupe_engine_block block = {.size = sizeof block};
    block.first_new = step * BLOCK;
    block.end_new = block.first_new + BLOCK;
    block.acts = 1;
    block.keys = (kvloupe_engine_states){.data = states,
                                         .type = KVLOUPE_ENGINE_FLOAT32,
                                         .heads = HEADS,
                                         .rows = BLOCK,
                                         .columns = CHANNELS,
                                         .head_stride = BLOCK * CHANNELS,
                                         .row_stride = CHANNELS};
    block.queries = block.values = block.keys; /* an example's: a model has others */
    const kvloupe_engine_retained* retained = NULL;
    status = kvloupe_engine_policy_step(policy, &block, &retained, error);
    for (int head = 0; status == KVLOUPE_ENGINE_DONE && head < HEADS; ++head) {
      printf("step %d, head %d:", step, head);
      for (int entry = 0; entry < retained[head].kept_count; ++entry) {
        printf(" %d", retained[head].tokens[entry]);
      }
      printf("\n");
    }
  }
  if (status != KVLOUPE_ENGINE_DONE) fprintf(stderr, "keep: %s\n", error);
  kvloupe_engine_policy_destroy(policy);
  return status;
}
