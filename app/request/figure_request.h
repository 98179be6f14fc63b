#pragma once
// A request for a figure, as one value. A tile of the window, the command line, a gallery or a
// lesson describes a figure in FigureSettings. make_request() checks them against the inputs at
// hand and keeps only the settings that this figure reads, so that equal pictures have equal
// requests. All else follows from the request: the key of the computed result, the missing inputs,
// the command line (command_line.h), the settings in words (figure_service.h).

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/policy/kit/spec.h"
#include "analysis/trace/trace.h"
#include "app/figure/choice.h"
#include "app/figure/figure.h"

namespace kvloupe {
struct Evaluation;  // analysis/evaluation/evaluation.h
}

namespace kvloupe::request {

/// The settings that a person chose. Absent ones have a default.
struct FigureSettings {
  std::optional<int> layer = {};                   // default: the middle one
  std::optional<int> head = {};                    // default: that of query_head, else 0
  std::optional<int> query_head = {};              // default: the mean over the head's group
  std::optional<int> step = {};                    // default: the last of the prompt
  std::optional<std::pair<int, int>> tokens = {};  // both included, -1: the last; default: all
  std::optional<int> token = {};                   // default: the figure's own
  PolicySpec policy = parse_policy("keydiff");
  std::optional<PolicySpec> policy_b = {};
  bool choose_policy_b = true;  // a figure that needs one takes h2o, or keydiff beside h2o
  Budget budget{Percent{25.0}};
  int block = 0;                                // 0: the capture's own
  std::optional<Compression> compression = {};  // none: the capture's own
  figure::Choices choices = {};
  bool operator==(const FigureSettings&) const = default;
};

/// The inputs of figures that are at hand.
struct FigureInputs {
  /// Those given: a figure reads them all, or refuses.
  std::vector<std::shared_ptr<const Trace>> traces = {};
  /// A run of the first trace's tokens in the other loop (closed beside full, full beside closed);
  /// for figures that compare the two.
  std::shared_ptr<const Trace> other_loop = nullptr;
  std::shared_ptr<const Evaluation> evaluation = nullptr;
  bool operator==(const FigureInputs&) const = default;
};

/// A file and its content when it was read: equal only if both are.
struct InputIdentity {
  std::string path;
  std::string content;  // size and time of the last change
  bool operator==(const InputIdentity&) const = default;
};

/// Normalised by make_request(): a field that the figure does not read has its default.
struct FigureRequest {
  std::string figure;                 // a name of the catalogue
  std::vector<InputIdentity> inputs;  // in the order in which the figure takes them
  figure::Selection selection;        // open ends filled in; all tokens: 0 to -1
  std::optional<PolicySpec> policy_a;
  std::optional<PolicySpec> policy_b;
  std::string policy_files;  // what the policies read, choices' too, as policy_files() tells
  std::optional<Budget> budget;
  int block = 0;                           // 0: the capture's own
  std::optional<Compression> compression;  // none: the capture's own
  figure::Choices choices;                 // other than the defaults
  bool operator==(const FigureRequest&) const = default;
};
std::size_t hash_of(const FigureRequest& request);
/// Whether both are of the same inputs, head and choices: policies, budget, block, step and tokens
/// may differ, as they do while a hand drags a control.
bool same_subject(const FigureRequest& a, const FigureRequest& b);

/// Whether the figure with these choices draws policy B: beside A, or in its list of policies.
bool draws_policy_b(const figure::FigureInfo& info, const figure::Choices& choices);

/// Throws UsageError for a layer, head, step, token or choice that does not exist, whether the
/// figure reads it or not, and for more traces than the figure takes. A missing input is not an
/// error here: see missing().
FigureRequest make_request(const figure::FigureInfo& info, const FigureSettings& settings,
                           const FigureInputs& inputs);

/// The traces that the figure reads, of those at hand.
std::vector<std::shared_ptr<const Trace>> traces_read(const figure::FigureInfo& info,
                                                      const FigureInputs& inputs);

/// The input that the figure still needs.
enum class Missing {
  nothing,
  evaluation,   // results of kvloupe-capture eval
  trace,        // any
  other_loop,   // a run of the trace's tokens in the other loop
  more_traces,  // to compare
  policy_b,
};
Missing missing(const figure::FigureInfo& info, const FigureRequest& request);

/// Throws UsageError where a figure takes fewer traces, or none; `last` names the one too many.
void check_trace_count(const figure::FigureInfo& info, std::size_t count, const std::string& last);

/// Why the figure cannot be drawn from these inputs, in one line, which names the results file if
/// that is the reason; empty if it can.
std::string unavailable(const figure::FigureInfo& info, const FigureInputs& inputs);

/// Makes a request again only if its inputs have changed: for callers that ask in every frame.
class RequestMaker {
 public:
  /// As make_request(). The reference holds until the next call.
  const FigureRequest& make(const figure::FigureInfo& info, const FigureSettings& settings,
                            const FigureInputs& inputs);
  const FigureRequest& last() const { return request_; }

 private:
  FigureSettings settings_;
  FigureInputs inputs_;
  FigureRequest request_;  // without a figure: none yet
};

}  // namespace kvloupe::request

template <>
struct std::hash<kvloupe::request::FigureRequest> {
  std::size_t operator()(const kvloupe::request::FigureRequest& request) const {
    return kvloupe::request::hash_of(request);
  }
};
