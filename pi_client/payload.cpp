#include "payload.hpp"

#include "codec_choice.hpp"
#include "durable.hpp"
#include "gearbox/wire/picture.hpp"
#include "gearbox/wire/raw_image.hpp"

namespace gearbox::client {

namespace {

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

Outcome<CodedInput> prepare_bytes(const InputFile& input, Bytes file, const PayloadLimits& limits) {
  if (file.empty()) return Error{Errc::bad_picture, input.file + ": the file is empty"};
  Outcome<CodedInput> coded =
      wire::looks_raw(file) ? raw_input(input, file, limits) : picture_input(input, std::move(file));
  if (!coded) return named(input.file, coded.error());
  return coded;
}

void take(Payload& payload, std::vector<link::UploadSender::Input>& uploads, CodedInput input) {
  payload.stored = payload.stored && input.spec.codecs.empty();
  payload.submit.wire_bytes += input.spec.wire_bytes;
  payload.submit.inputs.push_back(std::move(input.spec));
  uploads.push_back(std::move(input.upload));
}

Payload whole(Payload payload, std::vector<link::UploadSender::Input> uploads) {
  payload.sender = std::make_shared<link::UploadSender>(std::move(uploads));
  payload.submit.digest = payload.sender->digest();
  return payload;
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
    BOOST_OUTCOME_TRY(Bytes bytes, read_whole(file.file, kMaxFileBytes));
    BOOST_OUTCOME_TRY(CodedInput input, prepare_bytes(file, std::move(bytes), limits));
    take(payload, uploads, std::move(input));
  }
  return whole(std::move(payload), std::move(uploads));
}

Outcome<Payload> prepare(const InputFile& named_as, Bytes bytes, const PayloadLimits& limits) {
  Payload payload;
  payload.stored = true;
  std::vector<link::UploadSender::Input> uploads;
  BOOST_OUTCOME_TRY(CodedInput input, prepare_bytes(named_as, std::move(bytes), limits));
  take(payload, uploads, std::move(input));
  return whole(std::move(payload), std::move(uploads));
}

}  // namespace gearbox::client
