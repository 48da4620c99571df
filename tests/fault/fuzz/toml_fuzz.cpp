// TOML from users: the first byte says as which file of a configuration folder it is read.
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>

#include "config/config.hpp"
#include "fuzz.hpp"
#include "gearbox/model/record.hpp"
#include "gearbox/steps/steps_file.hpp"

namespace gearbox::fuzz {
namespace {

namespace fs = std::filesystem;

/// A folder that is gone with the process, unless that crashes: `run` removes what is left.
class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "gearbox-fuzz-XXXXXX").string();
    require(::mkdtemp(name.data()) != nullptr, "a folder can be made");
    path_ = name;
    for (const char* sub : {"tasks", "models/m"}) fs::create_directories(path_ / sub);
    write("gearbox.toml", "");
    write("models/m/model.py", "");
  }
  ~Folder() {
    std::error_code ignored;  // nothing more can be done at exit
    fs::remove_all(path_, ignored);
  }
  void write(const std::string& file, std::string_view text) const {
    std::ofstream(path_ / file, std::ios::binary | std::ios::trunc) << text;
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

/// A refusal says where: people have to find it.
template <class T>
void read(const Outcome<T>& outcome) {
  if (outcome) return;
  require(!outcome.error().detail.empty(), "a refusal has a reason");
  for (const char letter : outcome.error().detail) {
    require(letter == '\n' || static_cast<unsigned char>(letter) >= 0x20, "a message has no control characters");
  }
}

}  // namespace
}  // namespace gearbox::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gearbox;
  static const fuzz::Folder folder;
  fuzz::Input input(data, size);
  constexpr std::string_view kRecord = "name = \"m\"\nversion = \"1\"\n";
  switch (input.take<std::uint8_t>() % 4) {
    case 0:
      folder.write("gearbox.toml", input.text());
      fuzz::read(config::load(folder.path()));
      folder.write("gearbox.toml", "");
      break;
    case 1:
      folder.write("tasks/t.toml", input.text());
      fuzz::read(config::load(folder.path()));
      std::filesystem::remove(folder.path() / "tasks/t.toml");
      break;
    case 2:
      folder.write("models/m/model.toml", std::string(kRecord) + std::string(input.text()));
      fuzz::read(model::read_record(folder.path() / "models/m"));
      break;
    default:
      folder.write("steps.toml", input.text());
      fuzz::read(steps::read_steps_file(folder.path() / "steps.toml"));
      break;
  }
  return 0;
}
