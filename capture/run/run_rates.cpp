#include "capture/run/run_rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>
#include <vector>

#include "analysis/base/core/error.h"
#include "analysis/base/system/output_file.h"
#include "analysis/base/text/text.h"
#include "analysis/trace/kept_files.h"
#include "capture/model/transformer.h"

namespace kvloupe {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostRates = 64;
constexpr std::uintmax_t kMostRateBytes = 1 << 16;

using RateLine = std::pair<std::string, RunRate>;

fs::path rates_file() {
  const fs::path folder = cache_folder();
  return folder.empty() ? fs::path() : folder / "run-rates";
}

bool is_rate(double number) { return std::isfinite(number) && number >= 0.0; }

/// The newest first.
std::vector<RateLine> read_rates() {
  std::vector<RateLine> rates;
  std::error_code error;
  const fs::path file = rates_file();
  if (!fs::is_regular_file(file, error) || fs::file_size(file, error) > kMostRateBytes)
    return rates;
  std::ifstream in(file);
  std::string line;
  while (std::getline(in, line) && rates.size() < kMostRates) {
    std::istringstream words(line);
    RateLine one;
    RunRate& rate = one.second;
    if (words >> one.first >> rate.prompt_work >> rate.generated >> rate.beside &&
        is_rate(rate.prompt_work) && rate.prompt_work > 0.0 && is_rate(rate.generated) &&
        is_rate(rate.beside)) {
      rates.push_back(std::move(one));
    }
  }
  return rates;
}

}  // namespace

double prompt_work(const ModelConfig& config, const RunInfo& run) {
  double weights = 0.0;
  for (const WeightShape& weight : weight_shapes(config)) {
    double numbers = 1.0;
    for (const std::int64_t size : weight.shape) numbers *= static_cast<double>(size);
    if (is_of_expert(weight.name)) {  // a token takes some of them
      numbers *=
          static_cast<double>(config.experts.per_token) / static_cast<double>(config.experts.count);
    }
    weights += numbers;
  }
  // A token's embedding is looked up; only where it is the output head, too, is it a factor.
  if (!config.tied_head)
    weights -= static_cast<double>(config.vocab_size) * static_cast<double>(config.hidden_size);
  const double tokens = run.prompt_length;
  const double seen = run.closed_loop()
                          ? std::min(tokens, static_cast<double>(run.budget) + run.block_size)
                          : tokens / 2.0;
  const double of_each =
      2.0 * static_cast<double>(config.num_layers * config.num_heads * config.head_dim) * seen;
  return tokens * (weights + of_each);
}

std::string rate_key(const std::string& fingerprint, const RunInfo& run) {
  return fmt::format("{}|{}|{}|{}|{}", fingerprint, run.dtype, run.device, run.threads,
                     run.closed_loop() ? "closed" : "full");
}

std::optional<RunRate> remembered_rate(const std::string& key) {
  for (const RateLine& line : read_rates()) {
    if (line.first == key) return line.second;
  }
  return std::nullopt;
}

void remember_rate(const std::string& key, RunRate rate) {
  const fs::path file = rates_file();
  if (file.empty() || !(rate.prompt_work > 0.0)) return;
  std::vector<RateLine> rates = read_rates();
  const auto same = [&](const RateLine& line) { return line.first == key; };
  if (const auto before = std::find_if(rates.begin(), rates.end(), same);
      before != rates.end() && rate.generated == 0.0) {
    rate.generated = before->second.generated;
  }
  rates.erase(std::remove_if(rates.begin(), rates.end(), same), rates.end());
  rates.insert(rates.begin(), {key, rate});
  rates.resize(std::min(rates.size(), kMostRates));
  std::string text;
  for (const auto& [name, one] : rates)
    text +=
        fmt::format("{} {:.6g} {:.6g} {:.6g}\n", name, one.prompt_work, one.generated, one.beside);
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  try {
    write_whole_file(file, text);
  } catch (const FileError&) {  // the next run is not foreseen
  }
}

std::optional<RunTime> foreseen_time(const std::optional<RunRate>& rate, const ModelConfig& config,
                                     const RunInfo& run) {
  if (!rate) return std::nullopt;
  RunTime time;
  time.seconds = rate->beside + prompt_work(config, run) / rate->prompt_work;
  if (run.generated > 0) {
    time.at_least = rate->generated == 0.0;
    if (!time.at_least) time.seconds += run.generated / rate->generated;
  }
  return time;
}

std::string foreseen_text(const std::optional<RunTime>& time) {
  if (!time) return "the time is known after the first run of this model here";
  return fmt::format("{}{}, as fast as the last run of this model here",
                     time->at_least ? "at least " : "", duration_text(time->seconds));
}

}  // namespace kvloupe
