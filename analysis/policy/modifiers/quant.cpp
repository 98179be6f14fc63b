// quant: the cache holds all but its last entries in few bits.

#include "analysis/policy/modifiers/modifiers.h"

namespace kvloupe::policies {

namespace {
ParameterInfo along(const std::string& name, const std::string& what, const std::string& usual) {
  return word_parameter(name, usual, {"channel", "token"},
                        "which " + what +
                            " share a scale: those of one channel in neighbouring entries, or "
                            "neighbouring channels of one token");
}
}  // namespace

void quant(PolicyEntry& entry) {
  entry.summary = "fewer bits: all but the last entries are held in 2, 4 or 8 bits a number";
  entry.formula =
      "in each group of numbers x' = z + s round((x - z) / s), z = min x, s = (max x - z) / "
      "(2^bits - 1). After each step's eviction this is done once for the entries that are no "
      "longer among the last `residual`; groups along the entries wait until they are whole";
  entry.source = "KIVI (Liu et al., ICML 2024), section 3 and algorithm 1";
  entry.needs = "keys and values";
  entry.work = "d operations per entry, once";
  entry.differences =
      "KIVI computes scales in float16, kvloupe in double; bytes count a scale and a zero point of "
      "16 bits for each group. KIVI keeps up to residual - 1 keys exact beside whole groups; here "
      "the last `residual` keys are exact and up to group - 1 more wait. A scale stays, and "
      "counts, as long as one entry of its group does. Each key-value head is quantised once; "
      "layers that read another layer's cache read it quantised. Of a latent cache (MLA) the "
      "latent key is quantised, with the values in it. A running model stores the rounded numbers "
      "in its own type: it answers as with few bits and takes the memory of many. Policies that "
      "merge or refit entries, which changes stored ones, are refused";
  entry.parameters = {
      count_parameter("bits", 4.0, 2, 8, "bits of a number: 2, 4 or 8"),
      count_parameter("group", 64.0, 8, 1024, "numbers that share a scale and a zero point"),
      along("keys", "keys", "channel"), along("values", "values", "token"),
      count_parameter("residual", 128.0, 0, 1e6,
                      "the last entries of a head's cache, which stay exact")};
  entry.example = "full+quant(group=32,residual=32)";
  entry.variants = {{"KIVI-4: 4 bits, groups of 32", "quant(group=32)"},
                    {"KIVI-2: 2 bits, groups of 32", "quant(2,group=32)"},
                    {"keys per token, as FlexGen does", "quant(keys=token)"}};
  entry.builder = StorageBuilder{[](const SpecPart& part) {
    return Quantisation{part.count("bits"), part.count("group"), part.word("keys") == "channel",
                        part.word("values") == "channel", part.count("residual")};
  }};
  entry.refusal = [](const SpecPart& part, const PolicySpec& spec) -> std::string {
    const int bits = part.count("bits");
    if (bits != 2 && bits != 4 && bits != 8) {
      return "bits=" + std::to_string(bits) + ": write 2, 4 or 8";
    }
    for (const SpecPart& other : spec.parts) {
      if (!makes_entries(other)) continue;
      return other.name + " changes entries that are already stored in few bits; remove " +
             other.name + " or quant";
    }
    return "";
  };
  entry.notes = [](const SpecPart& part, const ModelInfo&, int budget) {
    Lines notes = {"the bound of the perturbation does not hold for a quantised cache"};
    if (part.count("residual") >= budget) {
      notes.push_back("quant keeps the last " + std::to_string(part.count("residual")) +
                      " entries exact, which the budget of " + std::to_string(budget) +
                      " does not exceed: nothing is held in few bits; write a smaller residual");
    }
    return notes;
  };
}

}  // namespace kvloupe::policies
