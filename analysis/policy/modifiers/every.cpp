// every: while the model writes, the policy acts at a cadence.

#include "analysis/policy/modifiers/modifiers.h"

namespace kvloupe::policies {

void every(PolicyEntry& entry) {
  entry.summary = "acts after every n-th generated token; in between the cache grows";
  entry.traits.reads_prompt_end = true;
  entry.formula =
      "entries leave after the generated tokens n, 2n, 3n …, down to the budget N; so a head holds "
      "at most N + n - 1 entries after a step. Blocks of the prompt are compressed as ever";
  entry.source = "the cadence of R-KV (128), VaSE (64), and kvpress's DecodingPress";
  entry.needs = "where the prompt ends";
  entry.work = "none; the policy scores at every n-th step only";
  entry.differences =
      "VaSE acts where its cache has a multiple of 64 entries, R-KV where its buffer of 128 is "
      "full (slack(127)); here all heads act at the same steps";
  entry.parameters = {
      count_parameter("n", 64.0, 1, 1e6, "generated tokens from one act to the next")};
  entry.example = "rkv+every(128)";
  entry.variants = {{"VaSE", "every(64)"}, {"R-KV", "every(128)"}};
  entry.builder = ScheduleBuilder{
      [](const SpecPart& part, const LayerContext&) { return Schedule{.every = part.count("n")}; }};
  entry.refusal = [](const SpecPart&, const PolicySpec& spec) -> std::string {
    const SpecPart* only = spec.find("only");
    if (only == nullptr || only->word("part") != "prompt") return "";
    return "counts generated tokens, and with only(prompt) the policy does not act on them; remove "
           "one of the two";
  };
  entry.run_refusal = [](const SpecPart&, const RunShape& run) -> std::string {
    if (run.generated != 0) return "";
    return "counts generated tokens, and here the policy acts on none; run the model with "
           "--generate N (a forced continuation counts, too) and --compression regular, or remove "
           "every";
  };
}

}  // namespace kvloupe::policies
