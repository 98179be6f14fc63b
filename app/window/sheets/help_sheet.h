#pragma once

namespace kvloupe::window {

struct PanelContext;

/// Every key, and the actions of the mouse.
class HelpSheet {
 public:
  void toggle() { open_ = !open_; }
  void close() { open_ = false; }
  bool is_open() const { return open_; }
  void draw(const PanelContext& context);

 private:
  bool open_ = false;
};

}  // namespace kvloupe::window
