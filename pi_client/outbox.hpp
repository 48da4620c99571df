// outbox.hpp: where answers go before their items leave the spool: a file of JSON lines, synced after each.
//
// Between an answer's line and the end of its item a process may die: the next one looks for the ids of what it finds
// in the spool, so that no request has two lines. A line that was cut is removed: its request is answered again.
#pragma once

#include <filesystem>
#include <set>
#include <string>

#include "durable.hpp"
#include "gearbox/base/ids.hpp"

namespace gearbox::client {

/// Blocking; one thread at a time.
class Outbox {
 public:
  /// Makes nothing yet. The file may be renamed or removed by others at any time: it is opened anew for each line.
  explicit Outbox(std::filesystem::path file) : file_(std::move(file)) {}

  /// Which of `ids` have a line; cuts a last line that is not whole. A file that is not there has none. Errors:
  /// io_error.
  Outcome<std::set<RequestId>> answered(const std::set<RequestId>& ids) const;

  /// `line` without its end. On an error the file is as it was. Errors: no_space, io_error.
  Outcome<void> append(const std::string& line) const;

  const std::filesystem::path& file() const { return file_; }

 private:
  std::filesystem::path file_;
};

}  // namespace gearbox::client
