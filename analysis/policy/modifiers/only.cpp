// only: the policy acts on the prompt alone, or only while the model writes.

#include "analysis/policy/modifiers/modifiers.h"

namespace kvloupe::policies {

void only(PolicyEntry& entry) {
  entry.summary = "acts only while the prompt is read, or only while the model writes";
  entry.traits.reads_prompt_end = true;
  entry.formula =
      "prompt: nothing leaves after the prompt's last block, and the cache grows with each "
      "generated token. generated: the prompt is read with the full cache; the first act after a "
      "generated token takes all entries beyond the budget, those of the prompt too";
  entry.source = "kvpress: presses act on the prompt, DecodingPress while the model writes";
  entry.needs = "where the prompt ends";
  entry.work = "none";
  entry.differences = "to keep the prompt's entries for good: protect_prompt";
  entry.parameters = {word_parameter("part", "generated", {"generated", "prompt"},
                                     "the part in which the policy acts")};
  entry.example = "snapkv+only(prompt)";
  entry.builder = ScheduleBuilder{[](const SpecPart& part, const LayerContext&) {
    const bool prompt = part.word("part") == "prompt";
    return Schedule{.prompt = prompt, .generated = !prompt};
  }};
  entry.run_refusal = [](const SpecPart& part, const RunShape& run) -> std::string {
    if (run.generated != 0 || part.word("part") != "generated") return "";
    return "acts after generated tokens, and here the policy acts on none; run the model with "
           "--generate N (a forced continuation counts, too) and --compression regular, or take "
           "only(prompt)";
  };
}

}  // namespace kvloupe::policies
