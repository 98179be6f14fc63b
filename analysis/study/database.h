#pragma once

#include <filesystem>
#include <functional>
#include <string>

struct sqlite3;
struct sqlite3_stmt;

namespace kvloupe {

/// The absolute path: SQLite takes names such as ":memory:", "" and "file:…" for other things than
/// files.
std::string sqlite_name(const std::filesystem::path& path);

/// What to say of a file that holds no results of a study: what it is instead, as far as its first
/// bytes tell.
std::string not_results(const std::filesystem::path& path);

/// One SQLite file. Every method throws FileError with the file's name and what SQLite says.
class Database {
 public:
  /// read: changes nothing, except that it undoes the unfinished transaction of a killed writer;
  /// write: creates the file where there is none.
  enum class Access { read, write };
  Database(const std::filesystem::path& path, Access access);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  void run(const std::string& sql);
  /// One number, such as a pragma's.
  long number(const std::string& sql);
  /// All of `work` or nothing of it, also where the process ends on the way.
  void transaction(const std::function<void()>& work);

 private:
  friend class Statement;
  [[noreturn]] void fail() const;

  std::string path_;
  sqlite3* connection_ = nullptr;
};

/// A prepared statement: its parameters and columns are numbered from 0.
class Statement {
 public:
  Statement(Database& database, const std::string& sql);
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& bind(int parameter, long value);
  Statement& bind(int parameter, int value) { return bind(parameter, static_cast<long>(value)); }
  /// Numbers that are not finite become NULL.
  Statement& bind(int parameter, double value);
  Statement& bind(int parameter, const std::string& value);
  /// To the next row; false after the last, and then it can be run again.
  bool next();
  /// Runs it to its end.
  void run();

  int integer(int column);
  double real(int column);  // NaN for NULL
  std::string text(int column);

 private:
  Database& database_;
  sqlite3_stmt* statement_ = nullptr;
};

/// Keeps a second study from a results file: a file beside it, NAME.lock, locked as long as this
/// object lives. The system takes the lock back when the process ends in any way; the lock file
/// that a killed study leaves behind does no harm.
class StudyLock {
 public:
  /// Throws FileError where another study has the lock, and where the lock file cannot be made.
  explicit StudyLock(const std::filesystem::path& results);
  ~StudyLock();
  StudyLock(const StudyLock&) = delete;
  StudyLock& operator=(const StudyLock&) = delete;

 private:
  std::string path_;
  int file_ = -1;
};

}  // namespace kvloupe
