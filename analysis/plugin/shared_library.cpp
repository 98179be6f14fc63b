#include "analysis/plugin/shared_library.h"

#include <dlfcn.h>
#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "analysis/error.h"
#include "analysis/one_line.h"

namespace kvloupe {

namespace {

static_assert(sizeof(void*) == 8, "written for 64-bit ELF");
constexpr std::size_t kLongestReason = 300;

/// The system's loader maps a file as its headers say. If the file is shorter, a signal kills the
/// process: so the headers are checked first.
void check_elf(const std::string& path) {
  const auto refuse = [&](const std::string& what) { throw FileError(path, what); };
  std::error_code error;
  if (!std::filesystem::exists(path, error)) refuse("does not exist; give the file of a plugin");
  if (!std::filesystem::is_regular_file(path, error)) {
    refuse("is not a file; give the file of a plugin");
  }
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  std::ifstream in(path, std::ios::binary);
  if (error || !in) refuse("cannot be read; check its permissions");
  Elf64_Ehdr header = {};
  in.read(reinterpret_cast<char*>(&header), sizeof header);
  const bool elf = in && std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0;
  if (!elf || header.e_type != ET_DYN) refuse("is not a shared library");
  if (header.e_ident[EI_CLASS] != ELFCLASS64) refuse("is not a 64-bit shared library");
  const std::string cut = "is cut off; build or copy it again";
  if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum == 0) refuse(cut);
  in.seekg(static_cast<std::streamoff>(std::min<std::uintmax_t>(header.e_phoff, size)));
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr part = {};
    in.read(reinterpret_cast<char*>(&part), sizeof part);
    if (!in || part.p_filesz > size || part.p_offset > size - part.p_filesz) refuse(cut);
  }
}

/// The loader's last message, without the path at its beginning.
std::string loader_reason(const std::string& path) {
  const char* said = dlerror();
  std::string reason = said == nullptr ? "" : said;
  if (reason.starts_with(path + ": ")) reason.erase(0, path.size() + 2);
  return in_one_line(reason, kLongestReason);
}

}  // namespace

void* open_shared_library(const std::string& path) {
  check_elf(path);
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw FileError(path, "cannot be loaded: " + loader_reason(path));
  return library;
}

void* find_symbol(void* library, const char* name) { return dlsym(library, name); }

}  // namespace kvloupe
