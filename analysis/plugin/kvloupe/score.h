// A score of your own for kvloupe in C++20: a class derived from kvloupe::plugin::Score, and one
// KVLOUPE_POLICY_PLUGIN that lists it. Header only, on top of kvloupe/policy_plugin.h, where the
// rules of the interface are: which thread calls what, and how long pointers are valid.
#pragma once

#include <kvloupe/policy_plugin.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <exception>
#include <limits>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Hidden: each plugin has its own, whatever version of this file others were built with.
#pragma GCC visibility push(hidden)
namespace kvloupe::plugin {

/// Borrowed rows of numbers.
class Rows {
 public:
  Rows() = default;
  explicit Rows(const kvloupe_rows& rows) : rows_(rows) {}
  std::size_t size() const { return static_cast<std::size_t>(rows_.rows); }
  std::size_t columns() const { return static_cast<std::size_t>(rows_.columns); }
  std::span<const float> operator[](std::size_t row) const {
    return {rows_.data + static_cast<std::int64_t>(row) * rows_.stride, columns()};
  }

 private:
  kvloupe_rows rows_ = {};
};

/// The layer that an object decides for. Copies refer to the same layer.
class Layer {
 public:
  explicit Layer(const kvloupe_layer& layer) : layer_(&layer) {}
  int number() const { return layer_->layer; }
  int layers() const { return layer_->layers; }
  int heads() const { return layer_->heads; }  // key-value heads
  int query_heads() const { return layer_->query_heads; }
  /// Query heads that share one key-value head: those of head h are h·group … (h+1)·group − 1.
  int group() const { return layer_->query_heads / layer_->heads; }
  int head_dim() const { return layer_->head_dim; }
  int sliding_window() const { return layer_->sliding_window; }  // 0: none
  int chunk_size() const { return layer_->chunk_size; }          // 0: none
  int budget() const { return layer_->budget; }
  double attention_scale() const { return layer_->attention_scale; }
  /// Undoes RoPE on a key or query of this token.
  void unrotate(std::int32_t token, std::span<float> row) const {
    char error[KVLOUPE_ERROR_BYTES] = {};
    if (layer_->unrotate(layer_, token, row.data(), error) != 0) throw std::runtime_error(error);
  }

 private:
  const kvloupe_layer* layer_;
};

/// The cache of one head at a step, before eviction: n entries in the order of their tokens.
class Cache {
 public:
  explicit Cache(const kvloupe_cache& cache) : cache_(&cache) {}
  std::size_t size() const { return static_cast<std::size_t>(cache_->entries); }  // n
  std::span<const std::int32_t> tokens() const { return {cache_->tokens, size()}; }
  std::span<const std::uint8_t> roles() const { return {cache_->roles, size()}; }
  bool is_new(std::size_t row) const { return (cache_->roles[row] & KVLOUPE_NEW_ENTRY) != 0; }
  bool is_protected(std::size_t row) const {
    return (cache_->roles[row] & KVLOUPE_PROTECTED_ENTRY) != 0;
  }
  Rows keys() const { return Rows(cache_->keys); }      // after RoPE
  Rows values() const { return Rows(cache_->values); }  // of a score that reads_values
  /// [n] added to the logits of merged entries; empty: all 0.
  std::span<const float> log_sizes() const {
    return {cache_->log_sizes, cache_->log_sizes != nullptr ? size() : 0};
  }

 private:
  const kvloupe_cache* cache_;
};

/// One step: a block of tokens was appended and has attended.
class Step {
 public:
  explicit Step(const kvloupe_step& step) : step_(&step) {}
  int number() const { return step_->step; }
  int first_new() const { return step_->first_new; }  // the block: tokens [first_new, end_new)
  int end_new() const { return step_->end_new; }
  int first_visible() const { return step_->first_visible; }
  int budget() const { return step_->budget; }
  Cache cache(int head) const { return Cache(step_->caches[head]); }
  // The others are for scores that read queries.
  /// The block's queries, oldest first, after RoPE.
  Rows queries(int query_head) const {
    if (step_->queries == nullptr) throw std::logic_error("the score has not set reads_queries");
    return Rows(step_->queries[query_head]);
  }
  /// Softmax rows of the block's last `count` queries over the cache, oldest first. Valid until
  /// the next call for this query head.
  Rows attention(int query_head, int count = std::numeric_limits<int>::max()) const {
    const kvloupe_rows rows = step_->attention(step_, query_head, count);
    if (rows.data == nullptr) throw std::runtime_error("the attention could not be computed");
    return Rows(rows);
  }
  /// The sum of all rows of the block: [n].
  std::span<const float> attention_sums(int query_head) const {
    const float* sums = step_->attention_sums(step_, query_head);
    if (sums == nullptr) throw std::runtime_error("the attention could not be computed");
    const int head = query_head / (step_->query_heads / step_->heads);
    return {sums, static_cast<std::size_t>(step_->caches[head].entries)};
  }

 private:
  const kvloupe_step* step_;
};

/// The entries that a step kept in one head's cache. Rows index the cache before eviction.
class Retained {
 public:
  explicit Retained(const kvloupe_retained& retained) : retained_(&retained) {}
  std::span<const std::int32_t> rows() const {  // ascending
    return {retained_->kept, static_cast<std::size_t>(retained_->kept_count)};
  }
  std::span<const kvloupe_merge> merges() const {
    return {retained_->merges, static_cast<std::size_t>(retained_->merge_count)};
  }
  /// From one value per entry [n], keeps those of the kept entries.
  template <typename Value>
  void keep(std::vector<Value>& values) const {
    std::size_t next = 0;
    for (const std::int32_t row : rows())
      values[next++] = std::move(values[static_cast<std::size_t>(row)]);
    values.resize(next);
  }

 private:
  const kvloupe_retained* retained_;
};

/// Entries that a score keeps by its own definition, inside the budget.
struct Protection {
  int first_tokens = 0;
  int last_entries = 0;
};

/// The score of the entries of each head. One object per layer.
class Score {
 public:
  virtual ~Score() = default;
  /// At every step, evicting or not, before anything else.
  virtual void observe(const Step& /*step*/, int /*head*/) {}
  /// Fills scores [n]: finite numbers, higher = kept.
  virtual void score(const Step& step, int head, std::span<float> scores) = 0;
  /// Last at every step: forget the entries that were not kept.
  virtual void retain(const Retained& /*retained*/, int /*head*/) {}
  virtual Protection protection() const { return {}; }
};

/// A parameter of a score. Text of a plugin is written in its source: string literals.
struct Parameter {
  const char* name = "";
  const char* meaning = "";
  int type = KVLOUPE_NUMBER;
  double number = 0.0;  // the default
  double minimum = 0.0, maximum = 0.0;
  const char* text = nullptr;  // the default of a word, text, file; null: must be given
  std::vector<const char*> words = {};
};
inline Parameter count(const char* name, int number, int minimum, int maximum,
                       const char* meaning) {
  return {name, meaning, KVLOUPE_COUNT, double(number), double(minimum), double(maximum)};
}
inline Parameter flag(const char* name, bool on, const char* meaning) {
  return {name, meaning, KVLOUPE_FLAG, on ? 1.0 : 0.0, 0.0, 1.0};
}
inline Parameter number(const char* name, double number, double minimum, double maximum,
                        const char* meaning) {
  return {name, meaning, KVLOUPE_NUMBER, number, minimum, maximum};
}
/// A person writes entries, or a percentage of the budget; the score gets entries.
inline Parameter share(const char* name, double percent, const char* meaning) {
  return {name, meaning, KVLOUPE_SHARE, percent};
}
inline Parameter word(const char* name, const char* text, std::vector<const char*> words,
                      const char* meaning) {
  return {name, meaning, KVLOUPE_WORD, 0.0, 0.0, 0.0, text, std::move(words)};
}
inline Parameter text(const char* name, const char* text, const char* meaning) {
  return {name, meaning, KVLOUPE_TEXT, 0.0, 0.0, 0.0, text};
}
/// The path of a file that the score reads. Always given.
inline Parameter file(const char* name, const char* meaning) {
  return {name, meaning, KVLOUPE_FILE};
}

/// The catalogue's entry of a score.
struct Info {
  const char* name = "";
  const char* summary = "";
  const char* formula = "";
  const char* source = "";            // who proposed it
  const char* cost = nullptr;         // what a step costs, such as "n d products"
  const char* differences = nullptr;  // how other codes differ
  const char* example = nullptr;      // a spec
  int scale = KVLOUPE_SIGNED_OWN;     // what the numbers are
  bool reads_queries = false;         // Step::queries, attention, attention_sums
  bool reads_values = false;          // Cache::values
  bool one_set = false;               // all heads of a layer get the same scores
  bool parallel_heads = false;        // different heads may be used at the same time
  std::vector<Parameter> parameters = {};
};

/// The values of a score's parameters, by name.
class Arguments {
 public:
  Arguments(const std::vector<Parameter>& parameters, const kvloupe_value* values)
      : parameters_(&parameters), values_(values) {}
  double number(std::string_view name) const { return of(name).number; }
  int count(std::string_view name) const { return static_cast<int>(of(name).number); }
  bool flag(std::string_view name) const { return of(name).number != 0.0; }
  int share(std::string_view name) const { return count(name); }  // entries
  std::string text(std::string_view name) const {
    const char* value = of(name).text;
    if (value == nullptr) throw std::logic_error(std::string(name) + " is not a text");
    return value;
  }

 private:
  const kvloupe_value& of(std::string_view name) const {
    for (std::size_t i = 0; i < parameters_->size(); ++i)
      if (name == (*parameters_)[i].name) return values_[i];
    throw std::logic_error("the score has no parameter '" + std::string(name) + "'");
  }
  const std::vector<Parameter>* parameters_;
  const kvloupe_value* values_;
};

/// Runs `body`; an exception becomes the line that the interface asks for.
template <typename Body>
std::int32_t guarded(char* error, const Body& body) noexcept {
  try {
    body();
    return 0;
  } catch (const std::exception& exception) {
    std::snprintf(error, KVLOUPE_ERROR_BYTES, "%s", exception.what());
  } catch (...) {
    std::snprintf(error, KVLOUPE_ERROR_BYTES, "an exception that is not a std::exception");
  }
  return 1;
}

/// The list of scores that KVLOUPE_POLICY_PLUGIN fills.
class Plugin {
 public:
  explicit Plugin(const kvloupe_host& host) : host_(&host) {}

  /// Adds a score: Type is made from (const Layer&, const Arguments&) for each layer.
  template <typename Type>
  void add(Info info) {
    static auto& kept = *new std::deque<Info>;  // create() reads them until the program ends
    const Info& own = kept.emplace_back(std::move(info));
    std::vector<kvloupe_parameter> parameters;
    for (const Parameter& p : own.parameters) {
      parameters.push_back({p.name, p.meaning, p.type, static_cast<std::int32_t>(p.words.size()),
                            p.words.data(), p.number, p.minimum, p.maximum, p.text});
    }
    kvloupe_score score = {};
    score.size = sizeof score;
    score.flags = 0;
    if (own.reads_queries) score.flags |= KVLOUPE_READS_QUERIES;
    if (own.reads_values) score.flags |= KVLOUPE_READS_VALUES;
    if (own.one_set) score.flags |= KVLOUPE_ONE_SET;
    if (own.parallel_heads) score.flags |= KVLOUPE_PARALLEL_HEADS;
    score.scale = own.scale;
    score.parameter_count = static_cast<std::int32_t>(parameters.size());
    score.parameters = parameters.data();
    score.name = own.name;
    score.summary = own.summary;
    score.formula = own.formula;
    score.source = own.source;
    score.cost = own.cost;
    score.differences = own.differences;
    score.example = own.example;
    score.context = const_cast<Info*>(&own);
    score.create = [](void* context, const kvloupe_layer* layer, const kvloupe_value* values,
                      kvloupe_protection* protection, void** object, char* error) {
      return guarded(error, [&] {
        const auto& parameters_of = static_cast<const Info*>(context)->parameters;
        std::unique_ptr<Score> made =
            std::make_unique<Type>(Layer(*layer), Arguments(parameters_of, values));
        const Protection kept_anyway = made->protection();
        *protection = {kept_anyway.first_tokens, kept_anyway.last_entries};
        *object = made.release();
      });
    };
    score.observe = [](void* object, const kvloupe_step* step, std::int32_t head, char* error) {
      return guarded(error, [&] { static_cast<Score*>(object)->observe(Step(*step), head); });
    };
    score.score = [](void* object, const kvloupe_step* step, std::int32_t head, float* scores,
                     char* error) {
      return guarded(error, [&] {
        const Step now(*step);
        static_cast<Score*>(object)->score(now, head, {scores, now.cache(head).size()});
      });
    };
    score.retain = [](void* object, const kvloupe_retained* retained, std::int32_t head,
                      char* error) {
      return guarded(error,
                     [&] { static_cast<Score*>(object)->retain(Retained(*retained), head); });
    };
    score.destroy = [](void* object) { delete static_cast<Score*>(object); };
    char error[KVLOUPE_ERROR_BYTES] = {};
    if (host_->add_score(host_, &score, error) != 0) throw std::runtime_error(error);
  }

 private:
  const kvloupe_host* host_;
};

}  // namespace kvloupe::plugin
#pragma GCC visibility pop

/// Defines the plugin: KVLOUPE_POLICY_PLUGIN("its name", list) { list.add<MyScore>({...}); }
#define KVLOUPE_POLICY_PLUGIN(NAME, LIST)                                                         \
  static void kvloupe_list_scores(kvloupe::plugin::Plugin&);                                      \
  static std::int32_t kvloupe_register_scores(const kvloupe_host* host, char* error) {            \
    return kvloupe::plugin::guarded(error, [&] {                                                  \
      kvloupe::plugin::Plugin registered(*host);                                                  \
      kvloupe_list_scores(registered);                                                            \
    });                                                                                           \
  }                                                                                               \
  extern "C" {                                                                                    \
  const kvloupe_plugin kvloupe_policy_plugin = {KVLOUPE_POLICY_INTERFACE, sizeof(kvloupe_plugin), \
                                                NAME, kvloupe_register_scores};                   \
  }                                                                                               \
  static void kvloupe_list_scores(kvloupe::plugin::Plugin& LIST)
