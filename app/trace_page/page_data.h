#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "app/trace_page/trace_page.h"

namespace kvloupe::trace_page {

/// The numbers of a page. With P policies, B budgets, H heads of the page, T tokens, S steps, R
/// attention rows; all little-endian, deflated (zlib):
///   kept-P    [H,T,B] u8, u16 with more than 254 steps: the step at which a token left; all ones:
///             it stayed
///   left-P    [H,T,B] u8: the Fate with which it left; absent where all were evicted
///   score-P-B f32 [H,3] lowest and highest score and kind of scale, f32 [H,S] thresholds; u8 [H,T]
///             scores, u8 [H,T] and [H,T] low and high byte of ranks (0: no score), u8 [H,T] fates,
///             each of a token's last step in the cache
///   measures  f32 [M,P,B,H], of whole replays
///   keys      f32 [H,6] lowest and highest coordinate and explained share of each component, u8
///             [H,2,T] coordinates in 255ths of that range
///   attention u16, u32 with more than 65 535 tokens, [H,R,16] tokens and u8 [H,R,16] 255 · √ of
///   the
///             attention, mean over the query heads
struct PageData {
  std::vector<std::pair<std::string, std::string>> sections;  // name and deflated bytes
  nlohmann::ordered_json about;  // what names and shapes them; `problems`: what is left out
};

inline constexpr int kMostReads = 16;  // tokens of an attention row

/// Throws as make_page().
PageData page_data(const Trace& trace, const PageRequest& request, const PagePlan& plan,
                   Progress& progress, const std::function<void(const std::string&)>& say);

/// Attention rows of the page, ascending tokens: the last of each block, and the answer's queries.
std::vector<int> read_rows(const Trace& trace, const std::vector<Block>& blocks);

}  // namespace kvloupe::trace_page
