// The numbers of the page of a trace.

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <set>

#include "analysis/base/core/error.h"
#include "analysis/math/attention.h"
#include "analysis/math/pca.h"
#include "analysis/replay/layer_replay.h"
#include "analysis/replay/measure/measure_catalog.h"
#include "analysis/replay/measure/shared_measures.h"
#include "analysis/replay/record/layer_states.h"
#include "analysis/replay/replay.h"
#include "analysis/replay/sweep.h"
#include "analysis/replay/typed_values.h"
#include "app/trace_page/trace_page.h"

namespace kvloupe::trace_page {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kStatesKept = std::size_t{512} << 20U;
constexpr std::size_t kScoresAtOnce = std::size_t{256} << 20U;  // bytes of a replay's scores

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// Little-endian numbers one after the other.
class ByteList {
 public:
  void add(std::uint32_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) data += static_cast<char>(value >> (8 * i) & 0xFFU);
  }
  void add(float value) { add(std::bit_cast<std::uint32_t>(value), 4); }
  std::string data;
};

std::string deflated(const std::string& bytes) {
  uLongf size = compressBound(static_cast<uLong>(bytes.size()));
  std::string out(size, '\0');
  constexpr int kLevel = 9;
  if (compress2(reinterpret_cast<Bytef*>(out.data()), &size,
                reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uLong>(bytes.size()),
                kLevel) != Z_OK)
    throw WorkError("the page's numbers cannot be compressed: there is not enough memory");
  out.resize(size);
  return out;
}

/// In 255ths of the range from `low` to `high`.
std::uint32_t byte_of(float value, float low, float high) {
  if (!(high > low)) return 0;
  return static_cast<std::uint32_t>(std::lround(
      255.0 *
      std::clamp(static_cast<double>(value - low) / static_cast<double>(high - low), 0.0, 1.0)));
}

/// A head's scores, each of a token's last step in the cache.
struct LastScores {
  struct Score {
    float score = std::numeric_limits<float>::quiet_NaN();
    std::uint32_t rank = 0;
    Fate fate = Fate::by_score;
  };
  std::vector<float> thresholds;  // [S]
  std::vector<Score> of_token;    // [T]
};

class DataMaker {
 public:
  DataMaker(const Trace& trace, const PageRequest& request, const PagePlan& plan,
            Progress& progress, const Say& say)
      : trace_(trace),
        request_(request),
        progress_(progress),
        say_(say),
        heads_(plan.heads),
        blocks_(plan.blocks),
        rows_(plan.rows),
        scores_room_(std::max(kUsualBytes, plan.bytes / 4)) {
    for (const auto& [layer, head] : heads_)
      if (layers_.empty() || layers_.back() != layer) layers_.push_back(layer);
    for (const Measure& measure : all_measures()) {
      const auto usual = usual_measures(trace);
      if (!measure.info->label.empty() ||
          std::find(usual.begin(), usual.end(), measure.info->name) != usual.end())
        measures_.push_back(&measure);
    }
    const std::size_t settings = request.policies.size() * request.budgets.size();
    progress_.set_total(static_cast<long>((settings + 1) * layers_.size()));
  }

  PageData make() {
    read_states();
    replay_all();
    data_.about["heads"] = heads_;
    data_.about["rows"] = rows_;
    data_.about["wide_steps"] = blocks_.size() > 254;
    Json steps = Json::array();
    for (const Block& block : blocks_) steps.push_back({block.first, block.end});
    data_.about["steps"] = std::move(steps);
    data_.about["problems"] = problems_;
    return std::move(data_);
  }

 private:
  void add(const std::string& name, const std::string& bytes) {
    data_.sections.emplace_back(name, deflated(bytes));
  }
  void leave_out(const std::string& line) {
    problems_.push_back(line);
    if (say_) say_(line);
  }

  /// Keys and attention. A layer whose states are damaged is left out.
  void read_states() {
    ByteList ranges, points, tokens, shares;
    std::vector<std::pair<int, int>> whole;
    std::exception_ptr first;
    for (const int layer : layers_) {
      try {
        const auto states = states_.get(trace_, layer, StateParts{}, progress_);
        for (const auto& head : heads_) {
          if (head.first != layer) continue;
          add_keys(states->keys[at(head.second)], ranges, points);
          add_reads(*states, head, tokens, shares);
          whole.push_back(head);
        }
      } catch (const Cancelled&) {
        throw;
      } catch (const std::exception& error) {
        if (!first) first = std::current_exception();
        leave_out("layer " + std::to_string(layer) + " is left out: " + error.what());
      }
      progress_.advance();
    }
    if (whole.empty()) std::rethrow_exception(first);
    heads_ = whole;
    std::erase_if(layers_, [&](int layer) {
      return std::none_of(heads_.begin(), heads_.end(),
                          [&](const auto& head) { return head.first == layer; });
    });
    add("keys", ranges.data + points.data);
    add("reads", tokens.data);
    add("shares", shares.data);
  }

  static void add_keys(const Matrix& keys, ByteList& ranges, ByteList& points) {
    const PrincipalComponents components = fit_principal_components(view(keys));
    const Matrix places = components.project(view(keys));
    for (int c = 0; c < 2; ++c) {
      const float low = places.col(c).minCoeff(), high = places.col(c).maxCoeff();
      ranges.add(low);
      ranges.add(high);
      ranges.add(static_cast<float>(components.explained[c]));
      for (Eigen::Index t = 0; t < places.rows(); ++t)
        points.add(byte_of(places(t, c), low, high), 1);
    }
  }

  /// The tokens that each row reads most, mean over the head's query heads.
  void add_reads(const LayerStates& states, std::pair<int, int> of, ByteList& tokens,
                 ByteList& shares) {
    const auto& [layer, head] = of;
    const ModelInfo& model = trace_.layer_model(layer);
    const LayerAttention attention = trace_.attention(layer);
    const int group = model.group_size();
    for (const int row : rows_) {
      progress_.check();
      Eigen::VectorXf mean = Eigen::VectorXf::Zero(row + 1);
      for (int q = head * group; q < (head + 1) * group; ++q) {
        mean += attention_rows(rows(view(states.queries[at(q)]), row, 1),
                               rows(view(states.keys[at(head)]), 0, row + 1), attention.of(q),
                               model.reach())
                    .row(0)
                    .transpose() /
                static_cast<float>(group);
      }
      std::vector<int> most(at(row) + 1);
      for (int t = 0; t <= row; ++t) most[at(t)] = t;
      const auto shown = std::min<std::ptrdiff_t>(kMostReads, row + 1);
      std::partial_sort(most.begin(), most.begin() + shown, most.end(), [&](int a, int b) {
        return mean[a] != mean[b] ? mean[a] > mean[b] : a < b;
      });
      for (int i = 0; i < kMostReads; ++i) {
        tokens.add(i < shown ? static_cast<std::uint32_t>(most[at(i)]) : 0U, 4);
        shares.add(i < shown ? byte_of(std::sqrt(mean[most[at(i)]]), 0.0F, 1.0F) : 0U, 1);
      }
    }
  }

  void replay_all() {
    const std::size_t policies = request_.policies.size(), budgets = request_.budgets.size();
    const std::size_t cells = heads_.size() * at(trace_.length()) * budgets;
    kept_.assign(policies, std::string(cells * step_bytes(), '\xFF'));
    left_.assign(policies, std::string(cells, '\0'));
    values_.assign(measures_.size() * policies * budgets * heads_.size(),
                   std::numeric_limits<float>::quiet_NaN());
    Json entries(std::vector<std::vector<int>>(policies, std::vector<int>(budgets, 0)));
    Json refused = Json::array();
    std::exception_ptr first;
    // The budgets in the middle first: their scores have room before those of others.
    std::multimap<std::size_t, std::pair<std::size_t, std::size_t>> settings;
    const std::size_t middle = (budgets - 1) / 2;
    for (std::size_t p = 0; p < policies; ++p)
      for (std::size_t b = 0; b < budgets; ++b)
        settings.emplace(b > middle ? 2 * (b - middle) - 1 : 2 * (middle - b), std::pair{p, b});
    for (const auto& [from_middle, setting] : settings) {
      const auto& [p, b] = setting;
      const PolicySpec& policy = request_.policies[p];
      Progress part(progress_, static_cast<long>(layers_.size()));
      try {
        const int count = budget_entries(request_.budgets[b], trace_, policy);
        replay_one(p, b, count, part);
        entries[p][b] = count;
      } catch (const Cancelled&) {
        throw;
      } catch (const std::exception& error) {
        if (!first) first = std::current_exception();
        refused.push_back({p, b, error.what()});
        leave_out(policy.text() + " at " + request_.budgets[b].text() +
                  " is left out: " + error.what());
      }
      part.finish();
    }
    if (refused.size() == settings.size()) std::rethrow_exception(first);
    ByteList measured;
    for (const float value : values_) measured.add(value);
    add("measures", measured.data);
    for (std::size_t p = 0; p < policies; ++p) {
      add("kept-" + std::to_string(p), kept_[p]);
      if (left_[p].find_first_not_of('\0') != std::string::npos)
        add("left-" + std::to_string(p), left_[p]);
    }
    add_scores(settings.size() - refused.size());
    Json list = Json::array();
    for (const Measure* measure : measures_)
      list.push_back({{"name", measure->info->name},
                      {"title", measure->info->title},
                      {"share", measure->info->share}});
    data_.about.update(
        {{"entries", entries}, {"refused", refused}, {"measures", list}, {"notes", notes_}});
  }

  int step_bytes() const { return blocks_.size() > 254 ? 2 : 1; }

  /// One policy at one budget. Where scores take much memory, some layers at a time.
  void replay_one(std::size_t p, std::size_t b, int budget, Progress& progress) {
    ReplayRequest request{.policy = request_.policies[p],
                          .budget = budget,
                          .block = request_.block,
                          .compression = request_.compression,
                          .measures = usual_measures(trace_),
                          .summary = true,
                          .scores_layer = kEveryHead,
                          .background = request_.background,
                          .states = &states_,
                          .shared = &shared_};
    const std::size_t present =
        std::min(at(trace_.length()), at(budget) + at(blocks_.front().size()));
    const std::size_t of_layer =
        at(trace_.most_heads()) * blocks_.size() * present * (sizeof(float) + sizeof(Fate));
    const std::size_t group = std::max<std::size_t>(1, kScoresAtOnce / of_layer);
    std::vector<LastScores> scores;
    progress.set_total(static_cast<long>(layers_.size()));
    for (std::size_t from = 0; from < layers_.size(); from += group) {
      const std::size_t end = std::min(layers_.size(), from + group);
      request.layers.assign(layers_.begin() + static_cast<std::ptrdiff_t>(from),
                            layers_.begin() + static_cast<std::ptrdiff_t>(end));
      Progress part(progress, static_cast<long>(end - from));
      const Replay result = replay(trace_, request, part);
      part.finish();
      for (const HeadReplay& head : result.heads) {
        if (std::find(heads_.begin(), heads_.end(), std::pair{head.layer, head.head}) ==
            heads_.end())
          continue;
        scores.push_back(last_scores(result, head));
        add_head(p, b, scores.size() - 1, head, scores.back());
      }
      for (const std::string& note : result.notes) notes_.insert(result.policy + ": " + note);
    }
    if (scores_bytes_ > scores_room_) return;
    scores_.emplace_back(fmt::format("score-{}-{}", p, b), deflated(score_bytes(scores)));
    scores_bytes_ += in_base64(scores_.back().second);
  }

  void add_head(std::size_t p, std::size_t b, std::size_t h, const HeadReplay& head,
                const LastScores& scores) {
    const std::size_t budgets = request_.budgets.size(), tokens = head.evicted_at.size();
    for (std::size_t t = 0; t < tokens; ++t) {
      const std::int32_t step = head.evicted_at[t];
      if (step < 0) continue;
      const std::size_t cell = (h * tokens + t) * budgets + b;
      for (int i = 0; i < step_bytes(); ++i)
        kept_[p][cell * at(step_bytes()) + at(i)] = static_cast<char>(step >> (8 * i) & 0xFF);
      const bool unseen = static_cast<int>(t) < first_seen(blocks_[at(step)].end, head.reach);
      left_[p][cell] = static_cast<char>(unseen ? Fate::beyond_window : scores.of_token[t].fate);
    }
    for (std::size_t m = 0; m < measures_.size(); ++m) {
      if (!applies(*measures_[m], request_.policies[p])) continue;
      values_[((m * kept_.size() + p) * budgets + b) * heads_.size() + h] =
          static_cast<float>(measure_of(*measures_[m], head));
    }
  }

  /// What the head's scores say of each token at its last step in the cache, in place of the scores
  /// of all steps.
  static LastScores last_scores(const Replay& replay, const HeadReplay& head) {
    LastScores last;
    last.of_token.resize(head.evicted_at.size());
    for (std::size_t step = 0; step < head.steps.size(); ++step) {
      const StepRecord& record = head.steps[step];
      const bool is_last = step + 1 == head.steps.size(),
                 decided = record.retained < record.cache_size;
      last.thresholds.push_back(decided ? record.threshold
                                        : std::numeric_limits<float>::quiet_NaN());
      if (!decided && !is_last) continue;
      const std::vector<float>& scores = head.scores[step];
      const auto present = replay.tokens_at(head, static_cast<int>(step));
      std::vector<std::uint32_t> ranks(present.size(), 0);
      std::uint32_t rank = 0;
      for (const std::size_t row : by_score(scores)) ranks[row] = ++rank;
      for (std::size_t row = 0; row < present.size(); ++row) {
        const std::int32_t left = head.evicted_at[at(present[row])];
        if (left < 0 ? !is_last : left != static_cast<std::int32_t>(step)) continue;
        const Fate usual = left < 0 ? Fate::by_score : Fate::evicted;
        last.of_token[at(present[row])] = {
            scores.empty() ? std::numeric_limits<float>::quiet_NaN() : scores[row], ranks[row],
            head.fates[step].empty() ? usual : head.fates[step][row]};
      }
    }
    return last;
  }

  static std::string score_bytes(const std::vector<LastScores>& heads) {
    ByteList thresholds;
    std::array<ByteList, 5> planes;
    for (const LastScores& head : heads) {
      for (const float threshold : head.thresholds) thresholds.add(threshold);
      for (const LastScores::Score& one : head.of_token) {
        // The upper half of a float, rounded to 4 bits after the point, since more do not compress.
        const auto bits = std::bit_cast<std::uint32_t>(one.score);
        const std::uint32_t half =
            std::isfinite(one.score) ? (bits + 0x40000U) >> 19U << 3U : bits >> 16U;
        const std::uint32_t rank = std::min(one.rank, 0xFFFFU);
        const std::array bytes{half >> 8U, half, rank >> 8U, rank,
                               static_cast<std::uint32_t>(one.fate)};
        for (std::size_t plane = 0; plane < planes.size(); ++plane)
          planes[plane].add(bytes[plane], 1);
      }
    }
    for (const ByteList& plane : planes) thresholds.data += plane.data;
    return thresholds.data;
  }

  /// Adds those for which the page has room, and says of how many of `all` there are none.
  void add_scores(std::size_t all) {
    constexpr std::size_t kPageItself = 200'000;  // texts, style and script
    std::size_t bytes = kPageItself, added = 0;
    for (const auto& section : data_.sections) bytes += in_base64(section.second);
    const std::size_t most = std::min(kMostBytes, std::max(kUsualBytes, bytes / 4 * 5));
    for (auto& section : scores_) {
      const std::size_t more = in_base64(section.second);
      if (bytes + more > most) continue;
      bytes += more;
      ++added;
      data_.sections.push_back(std::move(section));
    }
    if (added < all)
      leave_out(fmt::format(
          "scores and ranks are left out for {} of the {} pairs of a policy and a budget, to "
          "keep the page small; fewer layers, policies or budgets make room",
          all - added, all));
  }
  static std::size_t in_base64(const std::string& bytes) { return bytes.size() * 4 / 3; }

  const Trace& trace_;
  const PageRequest& request_;
  Progress& progress_;
  const Say& say_;
  std::vector<std::pair<int, int>> heads_;
  std::vector<int> layers_;
  const std::vector<Block>& blocks_;
  const std::vector<int>& rows_;
  std::size_t scores_room_;
  std::vector<const Measure*> measures_;
  std::set<std::string> notes_;
  std::vector<std::string> problems_;
  LayerStatesCache states_{kStatesKept};
  SharedMeasures shared_{kStatesKept / 4};
  std::vector<std::string> kept_, left_;  // [P] of the arrays' bytes
  std::vector<float> values_;             // of the measures
  std::vector<std::pair<std::string, std::string>> scores_;
  std::size_t scores_bytes_ = 0;
  PageData data_;
};

}  // namespace

PageData page_data(const Trace& trace, const PageRequest& request, const PagePlan& plan,
                   Progress& progress, const Say& say) {
  return DataMaker(trace, request, plan, progress, say).make();
}

}  // namespace kvloupe::trace_page
