#include <filesystem>
#include <set>

#include "capture_source.hpp"
#include "payload.hpp"

namespace gearbox::client {

namespace fs = std::filesystem;

namespace {

class FileSource final : public CaptureSource {
 public:
  explicit FileSource(std::string folder) : folder_(std::move(folder)) {}

  Outcome<void> open() override {
    std::error_code failed;
    if (fs::is_directory(folder_, failed)) return done();
    return Error{Errc::io_error, folder_.string() + ": no such folder"};
  }

  Outcome<Shot> shoot(const StopBell& stop) override {
    if (stop.stopped()) return Error{Errc::cancelled, "stopped"};
    std::error_code failed;
    std::set<fs::path> files;
    for (fs::directory_iterator entry(folder_, failed), end; !failed && entry != end; entry.increment(failed)) {
      const std::string name = entry->path().filename().string();
      std::error_code unknown;
      if (name[0] != '.' && entry->is_regular_file(unknown)) files.insert(entry->path());
    }
    if (failed) return file_error(folder_, failed.value());
    if (files.empty()) return Error{Errc::timeout, folder_.string() + " has no pictures"};
    auto next = files.upper_bound(last_);
    if (next == files.end()) next = files.begin();
    last_ = *next;
    BOOST_OUTCOME_TRY(Bytes bytes, read_whole(last_, kMaxFileBytes));
    return Shot{last_.string(), std::move(bytes)};
  }

  void close() override {}
  bool is_live() const override { return false; }

 private:
  const fs::path folder_;
  fs::path last_;
};

}  // namespace

std::unique_ptr<CaptureSource> make_file_source(std::string folder) {
  return std::make_unique<FileSource>(std::move(folder));
}

}  // namespace gearbox::client
