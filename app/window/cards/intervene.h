#pragma once
// The actions on a chosen token or range: follow, keep or drop it.

#include "analysis/trace/segments.h"

namespace kvloupe::window {

struct PanelContext;

/// The grid follows them, and so does each view of followed tokens.
void follow_tokens(const PanelContext& context, TokenRange tokens);

/// Small buttons on the current line: Follow, Keep here, Keep in all, Drop here. They change the
/// followed tokens, or policy A.
void draw_token_actions(const PanelContext& context, TokenRange tokens);

}  // namespace kvloupe::window
