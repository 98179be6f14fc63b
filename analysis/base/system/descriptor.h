#pragma once

#include <unistd.h>

#include <utility>

namespace kvloupe {

/// A file descriptor that closes itself; −1: none.
class Descriptor {
 public:
  explicit Descriptor(int descriptor = -1) : value_(descriptor) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    reset(std::exchange(other.value_, -1));
    return *this;
  }

  int value() const { return value_; }
  void reset(int descriptor = -1) {
    if (value_ >= 0) close(value_);
    value_ = descriptor;
  }

 private:
  int value_;
};

}  // namespace kvloupe
