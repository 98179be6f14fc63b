#include "analysis/replay/kept_sets_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <bit>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "analysis/base/core/error.h"
#include "analysis/policy/kit/policy_catalog.h"

namespace kvloupe {

namespace {
static_assert(std::endian::native == std::endian::little, "safetensors are little-endian");

/// Heads of a layer whose sets are written once.
struct SetsOfHeads {
  int layer = 0;
  int head = 0;
  bool all = false;                             // of the layer
  std::vector<std::vector<std::int32_t>> sets;  // [steps]
};

std::vector<SetsOfHeads> sets_of(const Replay& replay, const std::vector<int>& steps) {
  if (makes_entries(parse_policy(replay.policy))) {
    throw UsageError("export-sets: " + replay.policy +
                     " merges or refits entries, and a file of sets does not hold what an entry "
                     "became; choose a policy that only evicts");
  }
  std::vector<SetsOfHeads> found;
  for (const HeadReplay& head : replay.heads) {
    SetsOfHeads own{head.layer, head.head, false, {}};
    for (const int step : steps) own.sets.push_back(replay.retained_at(head, step));
    found.push_back(std::move(own));
  }
  std::vector<SetsOfHeads> written;
  for (std::size_t first = 0; first < found.size();) {
    std::size_t end = first;
    bool same = true;
    for (; end < found.size() && found[end].layer == found[first].layer; ++end) {
      same = same && found[end].sets == found[first].sets;
    }
    const bool one = same && end - first > 1;
    for (std::size_t i = first; i < (one ? first + 1 : end); ++i) {
      written.push_back(std::move(found[i]));
      written.back().all = one;
    }
    first = end;
  }
  return written;
}
}  // namespace

std::vector<int> kept_steps(const Replay& replay, KeptSteps which, int prompt_length) {
  std::vector<int> steps;
  for (std::size_t step = 0; step < replay.blocks.size(); ++step) {
    if (which == KeptSteps::all || replay.blocks[step].end == prompt_length) {
      steps.push_back(static_cast<int>(step));
    }
  }
  if (steps.empty()) throw UsageError("export-sets: no step ends with the prompt");
  return steps;
}

void write_kept_sets_json(const Replay& replay, const std::string& trace,
                          const std::vector<int>& steps, bool once,
                          const std::function<void(std::string_view)>& write) {
  const std::vector<SetsOfHeads> all = sets_of(replay, steps);
  const auto quoted = [](const std::string& text) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  write(fmt::format("{{\"kvloupe_sets\":1,\"trace\":{},\"policy\":{},\"budget\":{},\"block\":{},",
                    quoted(trace), quoted(replay.policy), replay.budget, replay.block));
  if (once) write(fmt::format("\"once\":{},", steps.front()));
  write("\"heads\":[");
  for (std::size_t i = 0; i < all.size(); ++i) {
    const SetsOfHeads& own = all[i];
    write(fmt::format("{}\n{{\"layer\":{},\"head\":{},\"steps\":[", i > 0 ? "," : "", own.layer,
                      own.all ? "\"all\"" : std::to_string(own.head)));
    for (std::size_t s = 0; s < steps.size(); ++s) {
      write(fmt::format("{}\n{{\"step\":{},\"tokens\":{},\"retained\":[{}]}}", s > 0 ? "," : "",
                        steps[s], replay.blocks[static_cast<std::size_t>(steps[s])].end,
                        fmt::join(own.sets[s], ",")));
    }
    write("]}");
  }
  write("\n]}\n");
}

void write_kept_sets_tensors(const Replay& replay, const std::string& trace,
                             const std::vector<int>& steps, bool once,
                             const std::function<void(std::string_view)>& write) {
  const std::vector<SetsOfHeads> all = sets_of(replay, steps);
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"kvloupe_sets", "1"},
                            {"trace", trace},
                            {"policy", replay.policy},
                            {"budget", std::to_string(replay.budget)},
                            {"block", std::to_string(replay.block)}};
  std::string data;
  const auto add = [&](const std::string& name, const auto& numbers) {
    using Number = typename std::decay_t<decltype(numbers)>::value_type;
    const std::size_t begin = data.size();
    data.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number));
    header[name] = {{"dtype", sizeof(Number) == 8 ? "I64" : "I32"},
                    {"shape", {numbers.size()}},
                    {"data_offsets", {begin, data.size()}}};
  };
  std::vector<std::int64_t> numbers(steps.begin(), steps.end());
  add("steps", numbers);
  if (once) add("once", std::vector<std::int64_t>{steps.front()});
  for (std::size_t s = 0; s < steps.size(); ++s) {
    numbers[s] = replay.blocks[static_cast<std::size_t>(steps[s])].end;
  }
  add("tokens", numbers);
  for (const SetsOfHeads& own : all) {
    std::vector<std::int64_t> ends;
    std::int64_t end = 0;
    for (const auto& set : own.sets) ends.push_back(end += std::ssize(set));
    const std::string name = own.all ? fmt::format("layers.{}.all", own.layer)
                                     : fmt::format("layers.{}.heads.{}", own.layer, own.head);
    add(name + ".ends", ends);
  }
  for (const SetsOfHeads& own : all) {  // after all that has 8 bytes, so that these are aligned
    std::vector<std::int32_t> tokens;
    for (const auto& set : own.sets) tokens.insert(tokens.end(), set.begin(), set.end());
    add(own.all ? fmt::format("layers.{}.all", own.layer)
                : fmt::format("layers.{}.heads.{}", own.layer, own.head),
        tokens);
  }
  std::string text = header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  text.append((8 - text.size() % 8) % 8, ' ');
  std::array<char, 8> length{};
  for (std::size_t i = 0; i < length.size(); ++i) {
    length[i] = static_cast<char>(static_cast<std::uint64_t>(text.size()) >> (8 * i));
  }
  write({length.data(), length.size()});
  write(text);
  write(data);
}

}  // namespace kvloupe
