#include "analysis/policy/published.h"

#include <algorithm>

namespace kvloupe {

const std::vector<PublishedPolicy>& published_policies() {
  static const std::string snap = "snapkv(pool=max,range=candidates)";
  static const std::vector<PublishedPolicy> all = {
      {"sink", "StreamingLLM", "sink", "", "4 first tokens, the rest of the budget recent"},
      {"tova", "TOVA", "tova(layer)", "tova",
       "one set for all heads of a layer; plain: one for each key-value head (KeyDiff B.2)"},
      {"h2o", "H2O", "h2o+recent(50%)", "h2o",
       "half of the budget is for recent tokens; plain: the sum alone (KeyDiff A.1, CAOTE eq. 28)"},
      {"snapkv", "SnapKV", snap, "snapkv",
       "window 32, maximum over 7 neighbours, the window left out of the smoothing; plain: the "
       "mean over all entries (KeyDiff A.1)"},
      {"keydiff", "KeyDiff", "keydiff", "", "algorithm 1"},
      {"keynorm", "L2 norm", "keynorm", "",
       "the authors leave out the first two layers, which kvloupe does not"},
      {"pyramid", "PyramidKV", snap + "+pyramid", "snapkv+pyramid", "on SnapKV, β = 20"},
      {"adakv", "Ada-KV", snap + "+adakv(mode=mix)", "snapkv+adakv",
       "on SnapKV, its counts mixed with equal ones, safeguard 0.2"},
      {"critical", "CriticalKV", "snapkv(pool=max)+critical", "snapkv+critical",
       "algorithms 1 and 2: on SnapKV with the maximum, smoothed over all entries"},
      {"caote", "CAOTE", "h2o+caote", "",
       "on a plain score, as in its paper; also works on the scores as their authors ran them"},
      {"kvmerger", "KVMerger", "h2o+kvmerger", "",
       "on the plain sum; its own shares keep the recent and the heavy entries"},
      {"rkv", "R-KV", "rkv+every(128)", "rkv",
       "while the model writes, after every 128 tokens; plain: after every token"},
      {"vase", "VaSE", "vase+every+only", "vase",
       "only while the model writes, after every 64 tokens"},
      {"raas", "RaaS", "raas+protect_prompt", "raas",
       "the prompt stays; plain: its entries leave like others"},
      {"thinkv", "ThinKV", "thinkv+every(128)+only", "thinkv",
       "only while the model writes, after every 128 tokens, as EpiKV's authors ran it"},
      {"epikv", "EpiKV", "epikv+protect_prompt", "epikv",
       "the prompt stays; plain: its entries leave by their own scores"},
      {"longflow", "LongFlow", "longflow", "", "after every token, with nothing protected"},
      {"protect_prompt", "Random Attention", "random+protect_prompt", "",
       "the prompt stays, chance decides about the rest: what every score must beat"}};
  return all;
}

std::string published_spec(std::string_view part) {
  const auto& all = published_policies();
  const auto found = std::find_if(
      all.begin(), all.end(), [&](const PublishedPolicy& policy) { return policy.part == part; });
  return found == all.end() ? std::string(part) : found->spec;
}

std::string published_list(std::initializer_list<std::string_view> parts) {
  std::string list;
  for (const std::string_view part : parts) {
    if (!list.empty()) list += ",";
    const std::size_t plus = std::min(part.find('+'), part.size());
    list += published_spec(part.substr(0, plus));
    list += part.substr(plus);
  }
  return list;
}

}  // namespace kvloupe
