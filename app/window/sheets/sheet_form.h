#pragma once
// The common parts of sheets with a form: their place on the screen, and rows of a name and a
// control.

#include <filesystem>
#include <initializer_list>
#include <string>

#include "app/window/state/panel_context.h"

namespace kvloupe::window {

inline constexpr float kFormNames = 96.0F;  // where controls begin

inline constexpr const char* kChatHelp =
    "The prompt is what a user says, in the model's own chat template, and the model answers. For "
    "models that were trained to chat";

/// A line's name, and its control to follow as wide as is left less `button` pixels.
void form_field(const PanelContext& c, const char* text, float button = 0.0F);

/// Where a new file of this name goes: beside the open trace, or into the current folder where that
/// trace lies in the folder of kept files, which nobody looks into. `cache`: as of DemoPlaces.
std::string proposed_place(const std::string& trace, const std::filesystem::path& cache,
                           const std::string& file);

/// Begins a sheet in the middle, with this heading; one that was `height` pixels high and would
/// leave the screen begins higher, and scrolls where even that is not enough. `focus`: comes to the
/// front. end_sheet() in any case, which returns its height.
void begin_sheet(const PanelContext& c, const char* id, const char* heading, float height,
                 bool focus);
float end_sheet();

/// Keeps room above a sheet's buttons for texts that come and go, so that the buttons do not move:
/// what is drawn between the two calls takes at least the room of the `longest` texts. Returns
/// where the room ends, in the window's own pixels.
float begin_notes(std::initializer_list<const char*> longest);
void end_notes(float end);

/// Begins a sheet that can be moved and sized, at first in the middle and so high, with this
/// heading; what follows it is in the secondary font until end_list_sheet(). `flags` are added.
void begin_list_sheet(const PanelContext& c, const char* id, const char* heading, float height,
                      int flags = 0);
/// Draws the text beside the heading and the button that closes the sheet; whether it was clicked.
bool list_sheet_title(const std::string& words);
void end_list_sheet();

}  // namespace kvloupe::window
