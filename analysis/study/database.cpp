#include "analysis/study/database.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>

#include "analysis/base/core/error.h"
#include "analysis/base/text/text.h"

namespace kvloupe {

std::string sqlite_name(const std::filesystem::path& path) {
  return std::filesystem::absolute(path).string();
}

std::string not_results(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    return "is not a file; give the results file of a study";
  std::ifstream in(path, std::ios::binary);
  std::string start(15, '\0');
  in.read(start.data(), static_cast<std::streamsize>(start.size()));
  const char* other = start.starts_with("\x89HDF") ? " but an HDF5 file, such as a trace"
                      : start.starts_with('{')
                          ? " but a JSON file, such as a study or the results of an evaluation"
                      : start == "SQLite format 3" ? " but another SQLite database"
                                                   : "";
  return fmt::format("is not a results file of a study{}; give or choose another name", other);
}

Database::Database(const std::filesystem::path& path, Access access) : path_(path.string()) {
  // A killed writer leaves half a transaction, and beside the file a journal that undoes it. The
  // next reader must write to the file to apply the journal. SQLite opens a write-protected file
  // for reading.
  const int flags = SQLITE_OPEN_READWRITE | (access == Access::write ? SQLITE_OPEN_CREATE : 0);
  if (sqlite3_open_v2(sqlite_name(path).c_str(), &connection_, flags, nullptr) != SQLITE_OK) {
    const std::string why = sqlite3_errmsg(connection_);
    sqlite3_close(connection_);
    throw FileError(path_, why + "; check name and permissions");
  }
  // Who reads while a study writes waits for the end of a transaction, and the other way round.
  constexpr int kPatience = 10'000;  // ms
  sqlite3_busy_timeout(connection_, kPatience);
  if (access == Access::read) {
    sqlite3_exec(connection_, "PRAGMA query_only = 1", nullptr, nullptr, nullptr);
  }
}

Database::~Database() { sqlite3_close(connection_); }

void Database::fail() const {
  const int code = sqlite3_errcode(connection_);
  if (code == SQLITE_NOTADB) {
    throw FileError(path_, not_results(path_));
  }
  throw FileError(path_, in_one_line(sqlite3_errmsg(connection_), 200) +
                             "; check the disk's space and the file");
}

void Database::run(const std::string& sql) {
  if (sqlite3_exec(connection_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) fail();
}

long Database::number(const std::string& sql) {
  Statement statement(*this, sql);
  return statement.next() ? static_cast<long>(statement.real(0)) : 0;
}

void Database::transaction(const std::function<void()>& work) {
  run("BEGIN IMMEDIATE");
  try {
    work();
    run("COMMIT");
  } catch (...) {
    sqlite3_exec(connection_, "ROLLBACK", nullptr, nullptr, nullptr);  // the first failure counts
    throw;
  }
}

Statement::Statement(Database& database, const std::string& sql) : database_(database) {
  if (sqlite3_prepare_v2(database.connection_, sql.c_str(), -1, &statement_, nullptr) !=
      SQLITE_OK) {
    database.fail();
  }
}

Statement::~Statement() { sqlite3_finalize(statement_); }

Statement& Statement::bind(int parameter, long value) {
  if (sqlite3_bind_int64(statement_, parameter + 1, value) != SQLITE_OK) database_.fail();
  return *this;
}

Statement& Statement::bind(int parameter, double value) {
  const int code = std::isfinite(value) ? sqlite3_bind_double(statement_, parameter + 1, value)
                                        : sqlite3_bind_null(statement_, parameter + 1);
  if (code != SQLITE_OK) database_.fail();
  return *this;
}

Statement& Statement::bind(int parameter, const std::string& value) {
  if (sqlite3_bind_text(statement_, parameter + 1, value.data(), static_cast<int>(value.size()),
                        SQLITE_TRANSIENT) != SQLITE_OK) {
    database_.fail();
  }
  return *this;
}

bool Statement::next() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) database_.fail();
  sqlite3_reset(statement_);
  return false;
}

void Statement::run() {
  while (next()) {
  }
}

int Statement::integer(int column) { return sqlite3_column_int(statement_, column); }

double Statement::real(int column) {
  if (sqlite3_column_type(statement_, column) == SQLITE_NULL) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return sqlite3_column_double(statement_, column);
}

std::string Statement::text(int column) {
  const auto* bytes = sqlite3_column_text(statement_, column);
  if (bytes == nullptr) return {};
  const auto* first = reinterpret_cast<const char*>(bytes);
  return {first, first + sqlite3_column_bytes(statement_, column)};
}

namespace {
/// Whether the open file still has this name: the study before may have removed it meanwhile.
bool still_named(int file, const std::string& path) {
  struct stat opened = {}, named = {};
  return fstat(file, &opened) == 0 && stat(path.c_str(), &named) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}
}  // namespace

StudyLock::StudyLock(const std::filesystem::path& results) : path_(results.string() + ".lock") {
  constexpr mode_t kMode = 0666;  // less the umask
  while (true) {
    file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kMode);
    if (file_ < 0) {
      throw FileError(
          path_, std::string("cannot be written: ") + std::strerror(errno) + "; check the folder");
    }
    if (flock(file_, LOCK_EX | LOCK_NB) != 0) {
      const int error = errno;
      close(file_);
      if (error == EWOULDBLOCK) {
        throw FileError(results.string(),
                        "another study is writing to it; wait for its end or choose another name");
      }
      throw FileError(path_, std::string("cannot be locked: ") + std::strerror(error) +
                                 "; choose a folder on a file system with locks");
    }
    if (still_named(file_, path_)) return;
    close(file_);
  }
}

StudyLock::~StudyLock() {
  unlink(path_.c_str());
  close(file_);
}

}  // namespace kvloupe
