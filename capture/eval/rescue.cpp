#include "capture/eval/rescue.h"

#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <iterator>
#include <memory>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "analysis/error.h"
#include "analysis/metric/rank_correlation.h"
#include "analysis/metric/sink.h"
#include "analysis/output_file.h"
#include "analysis/policy/kit/policy.h"
#include "analysis/policy/kit/sequence_tables.h"
#include "analysis/policy/policy_catalog.h"
#include "analysis/replay/follow.h"
#include "analysis/replay/replay.h"
#include "analysis/trace/model_fingerprint.h"
#include "analysis/trace/segments.h"
#include "analysis/trace/trace_probe.h"
#include "analysis/utf8.h"
#include "capture/eval/answer_score.h"
#include "capture/eval/eval_run.h"
#include "capture/eval/first_number.h"
#include "capture/eval/rescue_file.h"
#include "capture/eval/set_search.h"
#include "capture/model/load_transformer.h"
#include "capture/run/capture.h"
#include "capture/run/capture_input.h"
#include "capture/run/compute.h"
#include "capture/run/model_description.h"
#include "capture/run/probe.h"
#include "capture/tokenizer/kinds/tokenizer_catalog.h"

namespace kvloupe {

namespace {
using Json = nlohmann::ordered_json;

// A model of up to so many layers and heads has each run alone; of larger ones, so many runs are
// made.
constexpr int kFewPlaces = 24;
constexpr int kMostRuns = 80;

/// "12-14;20": what `keep` and `drop` take.
std::string ranges_text(const std::vector<int>& tokens) {
  std::string text;
  for (std::size_t i = 0; i < tokens.size();) {
    std::size_t end = i + 1;
    while (end < tokens.size() && tokens[end] == tokens[end - 1] + 1) ++end;
    text += fmt::format("{}{}{}", text.empty() ? "" : ";", tokens[i],
                        end - i > 1 ? fmt::format("-{}", tokens[end - 1]) : "");
    i = end;
  }
  return text;
}

std::string heads_text(const std::vector<HeadIndex>& heads) {
  std::string text;
  for (const HeadIndex& head : heads) {
    text += fmt::format("{}{}.{}", text.empty() ? "" : ";", head.layer, head.head);
  }
  return text;
}

class Rescue {
 public:
  Rescue(const RescueRequest& request, Progress& progress, const RescueReport& report)
      : request_(request),
        progress_(progress),
        report_(report),
        config_(read_model_config(request.model.path)),
        info_(describe_model(config_, request.model.path)) {
    check_closed_loop(request.policy, true);
    check_combination(request.policy);
    read_input();
    read_probe();
    budget_ = request.budget.resolve(length_);
    check_limits(request.policy, info_, budget_, length_);
    check_limits(parse_policy(kept({})), info_, budget_, length_);
    const at::Device device = parse_device(request.device);
    const at::ScalarType type = parse_compute_type(request.dtype, device);
    use_threads(request.threads, device, type);
    // What was run is told by content: a prompt or a model of the same name may be another.
    Json settings = {{"model", info_.name},
                     {"fingerprint", model_fingerprint(request.model.path, progress)},
                     {"policy", request.policy.text()},
                     {"budget", budget_},
                     {"block", request.block},
                     {"dtype", compute_type_name(type)},
                     {"tokens", tokens_},
                     {"prompt", prompt_},
                     {"prompt_ids", ids_},
                     {"expect", asked_for()},
                     {"answer_tokens", request.answer_tokens}};
    if (probe_) settings["probe"] = probe_->kind;
    file_ = std::make_unique<RescueFile>(request.output, settings);
    model_ = std::make_unique<Transformer>(
        load_transformer(request.model.path, config_, type, device, request.model.weights));
  }

  Json run() {
    Json& results = file_->results();
    const std::vector<std::int32_t> full_says = record_full();
    if (expected_.empty() && !asked_for().is_null()) expected_ = up_to_answer(full_says);
    if (expected_.empty()) expected_ = full_says;
    if (expected_.empty()) throw WorkError("the full cache ends the text at once; nothing is lost");
    Json expected = Json::array();
    for (const std::int32_t id : expected_) expected.push_back(id);
    results["expected"] = {{"ids", expected}, {"text", text_of(expected_)}};

    const RescueOutcome full = outcome("full");
    results["full"] = {
        {"right", full.right}, {"logprob", full.logprob}, {"says", text_of(full_says)}};
    if (!full.right) {
      file_->save();
      throw WorkError("the full cache says '" + text_of(full_says) + "', not '" +
                      text_of(expected_) + "': there is nothing to rescue");
    }
    const std::string policy = request_.policy.text();
    const RescueOutcome base = outcome(policy);
    results["policy"] = {
        {"right", base.right}, {"logprob", base.logprob}, {"says", text_of(greedy(policy))}};
    if (base.right && report_.note) {
      report_.note("the answer is right with the policy: nothing has to be rescued");
    }
    results["shape"] = {{"layers", info_.num_layers}, {"heads", info_.num_kv_heads}};
    predict(results);
    Side keep{"keep", true, base, keep_blame_};
    Side drop{"drop", false, full, drop_blame_};
    search(keep, drop);
    for (Side* side : {&keep, &drop}) results[side->name] = written(*side);
    judge(results, keep);
    file_->save();
    return results;
  }

 private:
  void read_input() {
    if (request_.trace) {
      const Trace trace(*request_.trace);
      if (trace.run().closed_loop()) {
        throw UsageError(request_.trace->string() +
                         ": is a closed-loop run; give a run with the full cache");
      }
      length_ = trace.run().prompt_length;
      ids_.assign(trace.tokens().ids.begin(), trace.tokens().ids.begin() + length_);
      tokens_ = named_tokens(trace, request_.tokens);
      prompt_ = request_.trace->string();
      const std::filesystem::path& tokenizer = request_.model.tokenizer_place();
      if (has_tokenizer(tokenizer)) tokenizer_ = open_tokenizer(tokenizer);
      if (reads_probe()) {
        check_probe(request_.policy, trace);
        probe_ = TraceProbe(trace).info();
      }
      check_vocabulary(ids_, config_, request_.model.path);
    } else {
      CaptureRequest wanted;
      wanted.model = request_.model;
      wanted.prompt = request_.prompt;
      wanted.tokens = request_.sequence;
      CaptureInput input = read_capture_input(wanted, config_);
      for (const std::string& note : input.notes) {
        if (report_.note) report_.note(note);
      }
      ids_ = input.tokens.ids;
      length_ = static_cast<int>(ids_.size());
      tokenizer_ = std::move(input.tokenizer);
      TokenTable table;
      table.ids = ids_;
      table.segment = input.tokens.segment;
      table.segment_names = input.tokens.names;
      tokens_ = named_tokens(table, length_, request_.tokens);
      RunInfo run;
      run.prompt_length = length_;
      context_ = question_begin(table, run);
      prompt_ = request_.prompt ? request_.prompt->string() : request_.sequence_name;
      sequence_ = input.tokens;
    }
    std::erase_if(tokens_, [&](int token) { return token >= length_; });
    if (tokens_.empty())
      throw UsageError("tokens '" + request_.tokens + "': none is in the prompt");
    if (!request_.expect) return;
    if (!tokenizer_) throw UsageError("--expect: the model's folder has no tokenizer");
    // The text is read as what follows the prompt, where the tokenizer lets the prompt be as it is.
    const std::string before = tokenizer_->decode(ids_);
    std::vector<std::int32_t> whole;
    for (const EncodedToken& token : tokenizer_->encode(before + *request_.expect)) {
      whole.push_back(token.id);
    }
    if (const auto bos = tokenizer_->bos(); bos && ids_.front() == *bos) {
      whole.insert(whole.begin(), *bos);
    }
    if (whole.size() > ids_.size() && std::equal(ids_.begin(), ids_.end(), whole.begin())) {
      expected_.assign(whole.begin() + length_, whole.end());
    } else {
      for (const EncodedToken& token : tokenizer_->encode(*request_.expect)) {
        expected_.push_back(token.id);
      }
    }
    if (expected_.empty()) {
      throw UsageError("--expect '" + *request_.expect + "': the tokenizer gives no token for it");
    }
  }

  bool reads_probe() const { return has_trait(request_.policy, &PolicyTraits::reads_probe); }

  /// The second reading of the context, for a policy that needs one.
  void read_probe() {
    if (!reads_probe()) return;
    if (!probe_) {
      probe_ = make_probe(request_.probe.value_or(ProbeKind::repeat),
                          std::span(std::as_const(ids_)).first(static_cast<std::size_t>(context_)),
                          tokenizer_.get());
    }
    if (request_.block < probe_->context_end) {
      throw UsageError(
          fmt::format("rescue: {} needs the context read a second time before it evicts: run the "
                      "{} tokens as one block, with --block {} or more",
                      request_.policy.text(), probe_->context_end, length_));
    }
    check_vocabulary(probe_->ids, config_, request_.model.path);
  }

  /// What the request calls right; null: what the full cache says.
  Json asked_for() const {
    if (request_.expect) return *request_.expect;
    if (request_.number) return *request_.number;
    return request_.answers.empty() ? Json() : Json(request_.answers);
  }

  bool has_right_answer(const std::string& text) const {
    return request_.number ? first_number(text) == *request_.number
                           : has_answer(text, request_.answers);
  }

  /// The first of these tokens, until their text has the right answer.
  std::vector<std::int32_t> up_to_answer(const std::vector<std::int32_t>& said) const {
    if (!has_right_answer(text_of(said))) {
      const std::string right = request_.number
                                    ? *request_.number
                                    : fmt::format("{}", fmt::join(request_.answers, " or "));
      throw WorkError("the full cache says '" + text_of(said) + "', not " + right +
                      ": there is nothing to rescue");
    }
    std::vector<std::int32_t> begin;
    for (const std::int32_t id : said) {
      begin.push_back(id);
      if (has_right_answer(text_of(begin))) break;
    }
    return begin;
  }

  std::string text_of(const std::vector<std::int32_t>& ids) const {
    std::string text;
    for (const std::int32_t id : ids) {
      text += tokenizer_ ? tokenizer_->piece_bytes(id) : fmt::format("{} ", id);
    }
    return escape_invalid_utf8(text);
  }

  /// The policy with the tokens kept in these heads; none: in all.
  std::string kept(const std::vector<HeadIndex>& heads) const {
    return with("keep", request_.policy, heads);
  }
  std::string dropped(const std::vector<HeadIndex>& heads) const {
    return with("drop", parse_policy("full"), heads);
  }
  std::string with(const std::string& modifier, PolicySpec policy,
                   const std::vector<HeadIndex>& heads) const {
    if (policy.find(modifier) != nullptr) {
      throw UsageError("policy: it has " + modifier + " already; give the policy without it");
    }
    SpecPart part = default_part(*find_policy(modifier));
    for (auto& [name, value] : part.arguments) {
      if (name == "tokens") value = ranges_text(tokens_);
      if (name == "heads") value = heads_text(heads);
    }
    policy.parts.push_back(std::move(part));
    return parse_policy(policy.text()).text();
  }

  EvalRun start(const std::string& spec) const {
    EvalRun::Options options;
    options.most_tokens =
        length_ + std::max<int>(static_cast<int>(expected_.size()), request_.answer_tokens);
    options.block = request_.block;
    const PolicySpec policy = parse_policy(spec);
    if (!keeps_everything(policy)) {
      const bool full = find_policy(policy.score().name)->traits.keeps_everything;
      options.loop = ClosedLoop{policy, full ? options.most_tokens : budget_, Positions::original,
                                twice_ ? &*twice_ : nullptr};
      options.shared = &recording_;
    }
    return {*model_, info_, options};
  }

  /// What the model says by itself.
  std::vector<std::int32_t> says(EvalRun& run) const {
    std::vector<std::int32_t> said;
    for (int i = 0; i < request_.answer_tokens; ++i) {
      const std::int32_t choice = run.choice();
      if (ends_text(choice, config_, tokenizer_.get())) break;
      said.push_back(choice);
      if (i + 1 < request_.answer_tokens) run.read(std::span(&said.back(), 1), true, progress_);
    }
    return said;
  }
  std::vector<std::int32_t> greedy(const std::string& spec) const {
    EvalRun run = start(spec);
    run.read(ids_, true, progress_);
    return says(run);
  }

  /// Runs the full cache and keeps its blocks for the others.
  std::vector<std::int32_t> record_full() {
    EvalRun::Options options;
    options.most_tokens = length_ + request_.answer_tokens;
    options.block = request_.block;
    options.record = &recording_;
    EvalRun run(*model_, info_, options);
    run.read(ids_, true, progress_);
    if (probe_) {
      states_.emplace(*model_, info_, *probe_, Storage::float32);
      run.read_again(*states_, progress_);
      twice_.emplace(*states_, nullptr);
    }
    return says(run);
  }

  RescueOutcome outcome(const std::string& spec) {
    asked_.insert(spec);
    if (const std::optional<RescueOutcome> known = file_->find(spec)) return *known;
    progress_.check();
    const auto start_time = std::chrono::steady_clock::now();
    EvalRun run = start(spec);
    run.read(ids_, true, progress_);
    RescueOutcome result{true, 0.0};
    for (std::size_t i = 0; i < expected_.size(); ++i) {
      result.right = result.right && run.choice() == expected_[i];
      result.logprob += run.logprob(expected_[i]);
      if (i + 1 < expected_.size()) run.read(std::span(&expected_[i], 1), true, progress_);
    }
    file_->add(spec, result);
    seconds_ +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start_time).count();
    ++made_;
    if (report_.run) {
      const int asked = static_cast<int>(asked_.size());
      const int most = std::max(most_runs(), asked);
      report_.run(
          {spec, result.right, result.logprob, asked, most, (most - asked) * seconds_ / made_});
    }
    return result;
  }

  std::vector<HeadIndex> heads_of_layer(int layer) const {
    std::vector<HeadIndex> heads;
    for (int head = 0; head < info_.num_kv_heads; ++head) heads.push_back({layer, head});
    return heads;
  }

  /// The tokens kept beside the policy, or dropped from the full cache: in all heads, and in
  /// places.
  struct Side {
    const char* name;
    bool wanted;                       // keep: the answer right; drop: wrong
    RescueOutcome base;                // without
    const std::vector<double>& blame;  // [L · Hk], how much a head is thought to matter
    RescueOutcome all = {};
    std::vector<HeadIndex> tested = {};  // alone
    std::vector<int> layers = {};        // alone
    std::optional<std::vector<HeadIndex>> smallest = {};
    bool minimal = false;
    int tests = 0;  // of sets

    bool turned() const { return base.right != wanted && all.right == wanted; }
  };
  std::string spec(const Side& side, const std::vector<HeadIndex>& heads) const {
    return side.wanted ? kept(heads) : dropped(heads);
  }

  bool exhaustive() const {
    return request_.most_runs == 0 ||
           (!request_.most_runs && info_.num_layers * (1 + info_.num_kv_heads) <= kFewPlaces);
  }
  /// How many runs may be made, those of the file included.
  int most_runs() const {
    const int heads = info_.num_layers * info_.num_kv_heads;
    // Everything alone on both sides, and room for the search.
    if (exhaustive()) return 2 + 2 * (1 + info_.num_layers + heads) + 4 * heads;
    return request_.most_runs.value_or(kMostRuns);
  }
  /// Whether `spec` has been asked for, or one more run may be made.
  bool may_ask(const std::string& spec) const {
    return asked_.contains(spec) || static_cast<int>(asked_.size()) < most_runs();
  }
  void test_alone(Side& side, const HeadIndex& head) {
    if (!may_ask(spec(side, {head}))) return;
    outcome(spec(side, {head}));
    side.tested.push_back(head);
  }
  void test_alone(Side& side, int layer) {
    if (!may_ask(spec(side, heads_of_layer(layer)))) return;
    outcome(spec(side, heads_of_layer(layer)));
    side.layers.push_back(layer);
  }

  std::vector<HeadIndex> all_heads() const {
    std::vector<HeadIndex> heads;
    for (int layer = 0; layer < info_.num_layers; ++layer) {
      for (const HeadIndex& head : heads_of_layer(layer)) heads.push_back(head);
    }
    return heads;
  }
  double blame_of(const Side& side, const HeadIndex& head) const {
    const double blame =
        side.blame[static_cast<std::size_t>(head.layer * info_.num_kv_heads + head.head)];
    return std::isfinite(blame) ? blame : 0.0;
  }
  /// By falling blame; of equals, those that stand first.
  std::vector<HeadIndex> by_blame(const Side& side, std::vector<HeadIndex> heads) const {
    std::stable_sort(heads.begin(), heads.end(), [&](const HeadIndex& a, const HeadIndex& b) {
      return blame_of(side, a) > blame_of(side, b);
    });
    return heads;
  }

  /// All heads at once; then the sets; then what is left of the runs for layers and heads alone.
  /// Of a model with few places, these come first and say which heads matter most.
  void search(Side& keep, Side& drop) {
    for (Side* side : {&keep, &drop}) side->all = outcome(spec(*side, {}));
    if (exhaustive()) {
      for (Side* side : {&keep, &drop}) {
        for (int layer = 0; layer < info_.num_layers; ++layer) test_alone(*side, layer);
        for (const HeadIndex& head : all_heads()) test_alone(*side, head);
      }
      for (Side* side : {&keep, &drop}) {
        if (side->turned()) find_smallest(*side);
      }
      return;
    }
    // The set that restores the answer is the one that is asked for: it has the first call.
    if (keep.turned()) find_smallest(keep);
    if (drop.turned()) find_smallest(drop);
    for (Side* side : {&keep, &drop}) {
      if (!side->smallest) continue;
      for (const HeadIndex& head : in_order(*side->smallest)) {
        if (side->layers.empty() || side->layers.back() != head.layer)
          test_alone(*side, head.layer);
      }
      for (const HeadIndex& head : in_order(*side->smallest)) test_alone(*side, head);
    }
    // Each side's heads by falling blame, two that are kept for one that is dropped.
    const std::vector<HeadIndex> kept = by_blame(keep, all_heads());
    const std::vector<HeadIndex> dropped = by_blame(drop, all_heads());
    for (std::size_t i = 0; i < kept.size(); ++i) {
      test_unless(keep, kept[i]);
      if (i % 2 == 1) test_unless(drop, dropped[i / 2]);
    }
    for (std::size_t i = kept.size() / 2; i < dropped.size(); ++i) test_unless(drop, dropped[i]);
  }
  void test_unless(Side& side, const HeadIndex& head) {
    const auto is = [&](const HeadIndex& one) { return one == head; };
    if (std::none_of(side.tested.begin(), side.tested.end(), is)) test_alone(side, head);
  }

  /// A set of heads that turns the answer. Where every head was run alone, those of the largest
  /// effect are tried first; else layers come first, then the heads of those that are needed, both
  /// by falling blame.
  void find_smallest(Side& side) {
    std::vector<std::vector<HeadIndex>> parts;
    if (exhaustive()) {
      std::vector<std::pair<double, HeadIndex>> by_effect;
      for (const HeadIndex& head : all_heads()) {
        by_effect.emplace_back(std::abs(outcome(spec(side, {head})).logprob - side.base.logprob),
                               head);
      }
      // Of equals the last first, so that the first are left out first.
      std::stable_sort(by_effect.begin(), by_effect.end(),
                       [](const auto& a, const auto& b) { return a.first < b.first; });
      for (auto one = by_effect.rbegin(); one != by_effect.rend(); ++one)
        parts.push_back({one->second});
    } else {
      for (const HeadIndex& head : by_blame(side, all_heads())) {
        const auto is_layer = [&](const auto& part) { return part.front().layer == head.layer; };
        if (std::none_of(parts.begin(), parts.end(), is_layer))
          parts.push_back(heads_of_layer(head.layer));
      }
      const auto [heads, minimal] = smallest_of(side, parts);
      parts.clear();
      for (const HeadIndex& head : by_blame(side, heads)) parts.push_back({head});
    }
    auto [heads, minimal] = smallest_of(side, parts);
    side.smallest = in_order(heads);
    side.minimal = minimal;
  }

  /// Of parts, those that matter most first: the heads of a set of them that turns the answer, and
  /// whether none can be left out.
  std::pair<std::vector<HeadIndex>, bool> smallest_of(
      Side& side, const std::vector<std::vector<HeadIndex>>& parts) {
    const auto heads_in = [&](const std::vector<int>& set) {
      std::vector<HeadIndex> heads;
      for (const int part : set) {
        const auto& own = parts[static_cast<std::size_t>(part)];
        heads.insert(heads.end(), own.begin(), own.end());
      }
      return in_order(std::move(heads));
    };
    std::vector<int> order(parts.size());
    std::iota(order.begin(), order.end(), 0);
    const EnoughSet found =
        smallest_set(order, [&](const std::vector<int>& set) -> std::optional<bool> {
          const std::string one = spec(side, heads_in(set));
          if (!may_ask(one)) return std::nullopt;
          ++side.tests;
          return outcome(one).right == side.wanted;
        });
    return {heads_in(found.members), found.minimal};
  }

  static std::vector<HeadIndex> in_order(std::vector<HeadIndex> heads) {
    std::sort(heads.begin(), heads.end(), [](const HeadIndex& a, const HeadIndex& b) {
      return std::pair(a.layer, a.head) < std::pair(b.layer, b.head);
    });
    return heads;
  }

  Json written(Side& side) {
    const auto line = [&](const RescueOutcome& one) {
      return Json{{"right", one.right},
                  {"logprob", one.logprob},
                  {"gain", one.logprob - side.base.logprob}};
    };
    Json result;
    result["all"] = line(side.all);
    result["layers"] = Json::array();
    std::sort(side.layers.begin(), side.layers.end());
    for (const int layer : side.layers) {
      Json one = {{"layer", layer}};
      one.update(line(outcome(spec(side, heads_of_layer(layer)))));
      result["layers"].push_back(one);
    }
    result["heads"] = Json::array();
    for (const HeadIndex& head : in_order(side.tested)) {
      Json one = {{"layer", head.layer}, {"head", head.head}};
      one.update(line(outcome(spec(side, {head}))));
      result["heads"].push_back(one);
    }
    result["smallest"] = Json();
    if (!side.smallest) return result;
    Json heads = Json::array();
    for (const HeadIndex& head : *side.smallest) heads.push_back({head.layer, head.head});
    result["smallest"] = {
        {"heads", heads}, {"right", side.wanted}, {"runs", side.tests}, {"minimal", side.minimal}};
    return result;
  }

  /// What a replay on the full run's states blames: with the policy, and with the tokens dropped
  /// from the full cache.
  void predict(Json& results) {
    std::optional<UnfinishedFile> made;  // outlives the trace in it
    std::unique_ptr<const Trace> trace;
    if (request_.trace) {
      trace = std::make_unique<const Trace>(*request_.trace);
    } else {
      made.emplace(request_.output);
      if (made->error() != 0) {
        throw FileError(request_.output, std::string("cannot write beside it: ") +
                                             std::strerror(made->error()));
      }
      CaptureRequest wanted;
      wanted.model = request_.model;
      // The expected answer follows the prompt, so that the queries that write it can be asked.
      wanted.tokens = sequence_;
      for (const std::int32_t id : expected_) wanted.tokens->add(id, "answer");
      wanted.target = made->path();
      wanted.block = request_.block;
      wanted.dtype = request_.dtype;
      wanted.device = request_.device;
      wanted.threads = request_.threads;
      wanted.attention = AttentionStorage::none;
      if (probe_) wanted.probe = probe_words().at(probe_->kind);
      struct Silent : CaptureObserver {
        void on_tokens(int, int, int) override {}
        void on_note(const std::string&) override {}
      } silent;
      run_capture(wanted, progress_, silent);
      trace = std::make_unique<const Trace>(made->path());
    }
    ReadsRequest reads;
    reads.tokens = tokens_;
    Progress own(progress_, 0);
    const std::vector<TokenReads> read = token_reads(*trace, reads, own);
    const auto followed = [&](const PolicySpec& policy, int budget) {
      ReplayRequest replayed;
      replayed.policy = policy;
      replayed.budget = budget;
      replayed.block = request_.block;
      replayed.metrics = false;
      const Replay made_replay = replay(*trace, replayed, own);
      return follow(made_replay, read, tokens_,
                    restored_heads(*trace, made_replay, tokens_, {}, own));
    };
    const auto by_head = [&](const std::vector<FollowedHead>& heads) {
      std::vector<double> blame(static_cast<std::size_t>(info_.num_layers * info_.num_kv_heads));
      for (const FollowedHead& head : heads) {
        blame[static_cast<std::size_t>(head.reads.layer * info_.num_kv_heads + head.reads.head)] =
            head.blame;
      }
      return blame;
    };
    const std::vector<FollowedHead> heads = followed(request_.policy, budget_);
    keep_blame_ = by_head(heads);
    drop_blame_ = by_head(followed(parse_policy(dropped({})), trace->length()));
    Json& predicted = results["predicted"];
    predicted["by"] = blame_name(heads);
    predicted["heads"] = Json::array();
    for (const FollowedHead& head : heads) {
      const auto number = [](double value) { return std::isfinite(value) ? Json(value) : Json(); };
      predicted["heads"].push_back(
          {{"layer", head.reads.layer},
           {"head", head.reads.head},
           {"loss", number(head.loss)},
           {"question_loss", number(head.reads.question * (1.0 - head.fate.kept))},
           {"change", number(head.restored.change)},
           {"logit", number(head.restored.effect)},
           {"blame", number(head.blame)}});
    }
  }

  /// How good the blame was, beside what keeping proved.
  void judge(Json& results, const Side& keep) {
    std::vector<double> blames, gains;
    for (const HeadIndex& head : in_order(keep.tested)) {
      const double blame =
          keep_blame_[static_cast<std::size_t>(head.layer * info_.num_kv_heads + head.head)];
      if (!std::isfinite(blame)) continue;
      blames.push_back(blame);
      gains.push_back(outcome(kept({head})).logprob);
    }
    Json& predicted = results["predicted"];
    const double rho = blames.size() > 1 ? spearman(blames, gains) : HeadRoles::kUnknown;
    predicted["rank_correlation"] = std::isfinite(rho) ? Json(rho) : Json();
    predicted["set_within"] = Json();
    if (!keep.smallest) return;
    // The heads stand by falling blame.
    int within = 0, place = 0;
    for (const Json& head : predicted["heads"]) {
      ++place;
      const HeadIndex at{head["layer"].get<int>(), head["head"].get<int>()};
      if (std::find(keep.smallest->begin(), keep.smallest->end(), at) != keep.smallest->end())
        within = place;
    }
    predicted["set_within"] = within;
  }

  const RescueRequest& request_;
  Progress& progress_;
  const RescueReport& report_;
  ModelConfig config_;
  ModelInfo info_;
  std::vector<std::int32_t> ids_, expected_;
  std::vector<int> tokens_;
  std::string prompt_;
  TokenSequence sequence_;  // the prompt; of a trace, empty
  int length_ = 0, budget_ = 0;
  int context_ = 0;                   // tokens before the question
  std::optional<ProbeInfo> probe_;    // of a policy that reads the context a second time
  std::optional<ModelProbe> states_;  // once it is read
  std::optional<SequenceTables> twice_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<RescueFile> file_;
  std::unique_ptr<Transformer> model_;
  Recording recording_{1 << 30, request_.most_shared};
  std::vector<double> keep_blame_, drop_blame_;  // [L · Hk]
  std::set<std::string> asked_;                  // specs of runs
  int made_ = 0;                                 // of them, by this process
  double seconds_ = 0.0;                         // that these took
};
}  // namespace

nlohmann::ordered_json rescue(const RescueRequest& request, Progress& progress,
                              const RescueReport& report) {
  const c10::InferenceMode no_gradients;
  return Rescue(request, progress, report).run();
}

}  // namespace kvloupe
