#include "payload.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "codec_choice.hpp"
#include "gearbox/wire/picture.hpp"
#include "gearbox/wire/raw_image.hpp"

namespace gearbox::client {

namespace {

class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

Error failed_with(const std::string& path, int number) {
  return Error{Errc::io_error, path + ": " + std::strerror(number)};
}

/// The whole of a regular file, as long as it is when the end is met: one that is still being written comes out cut,
/// which the picture's own end mark tells.
Outcome<Bytes> read_whole(const std::string& path) {
  // O_NONBLOCK: opening a named pipe would wait for its writer.
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return failed_with(path, errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return failed_with(path, errno);
  if (!S_ISREG(status.st_mode)) return Error{Errc::io_error, path + ": not a regular file"};
  const auto too_large = [&](std::uint64_t size) {
    return Error{Errc::too_large, path + ": " + std::to_string(size) + " bytes; files up to " +
                                      std::to_string(kMaxFileBytes) + " are read"};
  };
  const auto announced = static_cast<std::uint64_t>(status.st_size);
  if (announced > kMaxFileBytes) return too_large(announced);
  Bytes bytes(announced);
  std::size_t have = 0;
  for (;;) {
    if (have == bytes.size()) {
      if (have >= kMaxFileBytes) return too_large(have);
      bytes.resize(have +
                   64 * 1024);  // one look past the announced end: files of /proc announce nothing, others may grow
    }
    const ssize_t got = ::read(file.get(), bytes.data() + have, bytes.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed_with(path, errno);
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  bytes.resize(have);
  return bytes;
}

Error named(const std::string& path, const Error& error) {
  return Error{error.code, path + ": " + error.detail};
}

Outcome<CodedInput> raw_input(const InputFile& input, const Bytes& file, const PayloadLimits& limits) {
  BOOST_OUTCOME_TRY(wire::RawImage image, wire::read_raw_image(file, input.tensor));
  Bytes plain = image.swapped.empty() ? Bytes(image.data.begin(), image.data.end()) : std::move(image.swapped);
  return code_input(std::move(image.spec), std::move(plain), limits.lossy);
}

Outcome<CodedInput> picture_input(const InputFile& input, Bytes file) {
  BOOST_OUTCOME_TRY(const wire::PictureInfo info, wire::check_picture_whole(file));
  BOOST_OUTCOME_TRY(wire::check_picture_name(info.type, input.file));
  wire::TensorSpec spec;
  spec.name = input.tensor;
  spec.dtype = wire::DType::uint8;
  spec.shape = {static_cast<std::int64_t>(file.size())};
  spec.bytes = file.size();
  BOOST_OUTCOME_TRY(wire::check(spec));
  return store_input(std::move(spec), std::move(file));
}

Outcome<CodedInput> prepare_input(const InputFile& input, const PayloadLimits& limits) {
  BOOST_OUTCOME_TRY(Bytes file, read_whole(input.file));
  if (file.empty()) return Error{Errc::bad_picture, input.file + ": the file is empty"};
  Outcome<CodedInput> coded =
      wire::looks_raw(file) ? raw_input(input, file, limits) : picture_input(input, std::move(file));
  if (!coded) return named(input.file, coded.error());
  return coded;
}

}  // namespace

Outcome<Payload> prepare(const RequestFiles& files, const PayloadLimits& limits) {
  Payload payload;
  payload.stored = true;
  std::vector<link::UploadSender::Input> uploads;
  for (const InputFile& file : files.inputs) {
    for (const wire::InputSpec& earlier : payload.submit.inputs) {
      if (earlier.tensor.name == file.tensor)
        return Error{Errc::bad_input, "input '" + file.tensor + "' is given twice"};
    }
    BOOST_OUTCOME_TRY(CodedInput input, prepare_input(file, limits));
    payload.stored = payload.stored && input.spec.codecs.empty();
    payload.submit.wire_bytes += input.spec.wire_bytes;
    payload.submit.inputs.push_back(std::move(input.spec));
    uploads.push_back(std::move(input.upload));
  }
  payload.sender = std::make_shared<link::UploadSender>(std::move(uploads));
  payload.submit.digest = payload.sender->digest();
  return payload;
}

}  // namespace gearbox::client
