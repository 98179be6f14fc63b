#include "tests/support/synthetic_evaluation.h"

#include <fmt/format.h>

#include <fstream>
#include <string>

#include "tests/support/cells.h"

namespace kvloupe::test {

std::filesystem::path write_synthetic_evaluation(const std::filesystem::path& path, bool needles) {
  std::string runs;
  const auto add = [&](const std::string& run) { runs += (runs.empty() ? "\n" : ",\n") + run; };
  for (int policy = 0; policy < 3; ++policy) {
    for (int budget = 0; budget < (policy == 0 ? 1 : 3); ++budget) {
      const std::string of = policy == 0 ? "full" : policy == 1 ? "h2o" : "snapkv+critical";
      const std::string written = policy == 0   ? "full"
                                  : budget == 0 ? "10%"
                                  : budget == 1 ? "25%"
                                                : "50%";
      const double share = policy == 0 ? 1.0 : budget == 0 ? 0.1 : budget == 1 ? 0.25 : 0.5;
      for (int sample = 0; sample < 2; ++sample) {
        const double difference = policy == 0 ? 0.0 : 0.1 * policy / (budget + 1) + 0.01 * sample;
        const std::string drift =
            policy == 0 ? ""
                        : fmt::format(
                              ",\"hidden_distance\":[{},{},{}],"
                              "\"hidden_cosine_distance\":[{},{},{}],"
                              "\"normed_distance\":{},\"normed_cosine_distance\":{}",
                              difference, 2 * difference, 3 * difference, difference / 4,
                              difference / 3, difference / 2, 4 * difference, difference);
        const std::string head =
            fmt::format("{{\"policy\":\"{}\",\"budget\":\"{}\",\"sample\":{},\"seconds\":0.5,", of,
                        written, sample);
        if (!needles) {
          add(head + fmt::format("\"entries\":{},\"length\":512,\"tokens\":512,\"loss\":{},"
                                 "\"loss_difference\":{}{}{}}}",
                                 static_cast<int>(512 * share), 3.0 + 0.02 * sample + difference,
                                 difference,
                                 policy == 0 ? ""
                                             : fmt::format(",\"kl\":{},\"same_top1\":{}",
                                                           difference * 0.5, 1.0 - difference),
                                 drift));
          continue;
        }
        for (const auto& [length, depth] : cells(2, 3)) {
          const bool found = policy == 0 || (policy + budget + sample + length + depth) % 3 != 0;
          const int tokens = length == 0 ? 250 : 500;
          add(head +
              fmt::format(
                  "\"entries\":{},\"length\":{},\"tokens\":{},\"depth\":{}.0,\"expected\":\"7\","
                  "\"answer\":\" 7\",\"correct\":{}{}}}",
                  static_cast<int>(tokens * share), length == 0 ? 256 : 512, tokens,
                  10 + 40 * depth, found, drift));
        }
      }
    }
  }
  std::ofstream(path, std::ios::binary)
      << "{\"format\":\"kvloupe-eval\",\"format_version\":1,\"generator\":\"kvloupe\","
         "\n\"settings\":{\"task\":\""
      << (needles ? "needle" : "perplexity") << "\",\"model\":\"synthetic\"},\n\"runs\":[" << runs
      << "],\n\"summary\":[]}\n";
  return path;
}

std::filesystem::path write_synthetic_rescue(const std::filesystem::path& path) {
  const auto effect = [](bool right, double logprob, double gain) {
    return fmt::format("\"right\":{},\"logprob\":{},\"gain\":{}}}", right, logprob, gain);
  };
  const auto side = [&](bool keep) {
    const double base = keep ? -4.0 : -0.5;
    const double each = keep ? 0.5 : -0.3;
    std::string layers, heads;
    for (int layer = 0; layer < 3; ++layer) {
      const double gain = each * (2 * layer + 1);
      layers += fmt::format("{}{{\"layer\":{},", layer > 0 ? "," : "", layer) +
                effect(keep == (layer == 2), base + gain, gain);
      for (int head = 0; head < 2; ++head) {
        const double own = each * (2 * layer + head);
        heads +=
            fmt::format("{}{{\"layer\":{},\"head\":{},", layer + head > 0 ? "," : "", layer, head) +
            effect(keep ? layer == 2 : layer + head < 3, base + own, own);
      }
    }
    return fmt::format(
        "{{\"all\":{{{},\"layers\":[{}],\"heads\":[{}],\"smallest\":{{\"heads\":{},\"right\":{},"
        "\"runs\":9}}}}",
        effect(keep, base + 7.0 * each, 7.0 * each), layers, heads,
        keep ? "[[2,0]]" : "[[1,1],[2,1]]", keep);
  };
  std::string predicted;
  for (int i = 0; i < 6; ++i) {
    predicted += fmt::format(
        "{}{{\"layer\":{},\"head\":{},\"loss\":{},\"attention\":{},\"score_rank\":{},"
        "\"drop_blame\":{}}}",
        i > 0 ? "," : "", i / 2, i % 2, i == 0 ? "null" : fmt::format("{}", 0.1 * i),
        i == 1 ? 0.6 : 0.1 * i, 1.0 - 0.1 * i, i == 0 ? "null" : fmt::format("{}", 0.2 * i));
  }
  std::ofstream(path, std::ios::binary)
      << "{\"format\":\"kvloupe-rescue\",\"format_version\":1,\"settings\":{\"model\":"
         "\"synthetic\","
         "\"policy\":\"h2o\",\"budget\":24,\"tokens\":[5,6,7]},\"runs\":{},"
         "\"expected\":{\"ids\":[7],\"text\":\" 32\"},"
         "\"full\":{\"right\":true,\"logprob\":-0.5,\"says\":\" 32.\"},"
         "\"policy\":{\"right\":false,\"logprob\":-4.0,\"says\":\" 78.\"},\"keep\":"
      << side(true) << ",\"drop\":" << side(false) << ",\"predicted\":{\"heads\":[" << predicted
      << "],\"rank_correlation\":1.0}}\n";
  return path;
}

}  // namespace kvloupe::test
