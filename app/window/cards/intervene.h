#pragma once
// The actions on a chosen token or range: follow, keep or drop it.

#include <string>

#include "analysis/trace/segments.h"

namespace kvloupe::window {

struct PanelContext;

/// The grid follows these tokens ("120-131", or the name of a segment), and so does each view of
/// followed tokens.
void follow_tokens(const PanelContext& context, const std::string& tokens);

/// Small buttons on the current line: Follow, Keep here, Keep in all, Drop here. They change the
/// followed tokens, or policy A.
void draw_token_actions(const PanelContext& context, TokenRange tokens);

}  // namespace kvloupe::window
