#include "app/window/policy_variants.h"

#include <algorithm>
#include <array>

#include "analysis/error.h"

namespace kvloupe::window {

namespace {

struct Row {
  std::string_view part;
  std::string_view where;
  std::string_view spec;  // of the part itself; a score may bring modifiers
};

// What docs/policies.md says under "in other codes", and the papers' own alternatives.
constexpr std::array kRows = {
    Row{"tova", "KeyDiff B.2: by group", "tova"},
    Row{"tova", "the original: one set per layer", "tova(aggregate=layer)"},
    Row{"tova", "kvpress: the same, last token kept", "tova(aggregate=layer,protect_last=1)"},
    Row{"h2o", "KeyDiff A.1, CAOTE eq. 28: the sum", "h2o"},
    Row{"h2o", "the original: half the budget recent", "h2o+recent(50%)"},
    Row{"h2o", "kvpress: mean over the queries that could see it", "h2o(normalise=visible)"},
    Row{"snapkv", "KeyDiff A.1: mean, kernel 7", "snapkv"},
    Row{"snapkv", "CriticalKV algorithm 2: maximum", "snapkv(pool=max)"},
    Row{"snapkv", "its authors' runs: maximum, without the window",
        "snapkv(pool=max,range=candidates)"},
    Row{"snapkv", "its code's defaults: window 64, kernel 5",
        "snapkv(window=64,kernel=5,range=candidates)"},
    Row{"snapkv", "kvpress: smoothed before the group mean",
        "snapkv(window=64,kernel=5,range=candidates,pool_before_group=1)"},
    Row{"keydiff", "KeyDiff algorithm 1: mean of normalised keys", "keydiff"},
    Row{"keydiff", "KeyDiff table 2: mean of raw keys", "keydiff(anchor=rawmean)"},
    Row{"keydiff", "KeyDiff table 2: median", "keydiff(anchor=median)"},
    Row{"keydiff", "KeyDiff eq. 7: pairwise", "keydiff(anchor=pairwise)"},
    Row{"keydiff", "KeyDiff table 3: inner product", "keydiff(metric=dot)"},
    Row{"keydiff", "KeyDiff table 3: distance", "keydiff(metric=euclidean)"},
    Row{"adakv", "kvpress: the best of each head pinned", "adakv"},
    Row{"adakv", "its authors' code: mixed, a = 0.5", "adakv(safeguard=0.5,mode=mix)"},
    Row{"critical", "CriticalKV: text and experiments, α = 0.5", "critical"},
    Row{"critical", "CriticalKV: the listing, α = 0.25", "critical(alpha=0.25)"},
    Row{"critical", "CriticalKV appendix F: L2", "critical(norm=l2)"},
    Row{"caote", "CAOTE §3.3: FastCAOTE", "fastcaote"},
    Row{"fastcaote", "CAOTE eq. 8: the output itself", "caote"},
    Row{"kvmerger", "KVMerger §3.2: cosine with the opener", "kvmerger"},
    Row{"kvmerger", "KVMerger's listing: cosine with the neighbour", "kvmerger(link=chain)"},
    Row{"kvmerger", "KVMerger eq. 6 as printed", "kvmerger(sigma=eq6)"},
    Row{"kvmerger", "σ from the distances", "kvmerger(sigma=dist)"},
    Row{"kvmerger", "KVMerger figure 3c: plain mean", "kvmerger(weights=mean)"},
    Row{"kvmerger", "KVMerger table 4: random pivot", "kvmerger(pivot=random)"},
    Row{"kvmerger", "sizes in the logits", "kvmerger(log_size=1)"},
    Row{"cam", "CaM: expected value", "cam"},
    Row{"cam", "CaM: drawn, as its authors do", "cam(sample=bernoulli)"},
    Row{"cam", "its language-model code: against the maximum", "cam(denominator=max)"},
};

/// The policy with one part put in another way; empty where the catalogue refuses that.
std::string replaced(const PolicySpec& policy, const Row& row) {
  try {
    const PolicySpec wanted = parse_policy(row.part == policy.score().name
                                               ? std::string(row.spec)
                                               : policy.score().name + "+" + std::string(row.spec));
    PolicySpec changed;
    const bool is_score = row.part == policy.score().name;
    changed.parts.push_back(is_score ? wanted.score() : policy.score());
    for (auto part = wanted.parts.begin() + 1; part != wanted.parts.end(); ++part) {
      changed.parts.push_back(*part);
    }
    for (auto part = policy.parts.begin() + 1; part != policy.parts.end(); ++part) {
      if (part->name != row.part && !changed.find(part->name)) changed.parts.push_back(*part);
    }
    return parse_policy(changed.text()).text();
  } catch (const UsageError&) {
    return {};
  }
}

}  // namespace

std::vector<PolicyVariant> variants_of(const PolicySpec& policy) {
  std::vector<PolicyVariant> variants;
  for (const SpecPart& part : policy.parts) {
    for (const Row& row : kRows) {
      if (row.part != part.name) continue;
      std::string spec = replaced(policy, row);
      const bool known = spec.empty() || spec == policy.text() ||
                         std::any_of(variants.begin(), variants.end(),
                                     [&](const PolicyVariant& each) { return each.spec == spec; });
      if (!known) variants.push_back({part.name, std::string(row.where), std::move(spec)});
    }
  }
  return variants;
}

}  // namespace kvloupe::window
