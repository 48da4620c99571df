#include "given.hpp"

#include <fstream>
#include <iterator>

#include "codec_choice.hpp"

namespace gearbox::load {

namespace {

Outcome<Bytes> read_file(const std::string& name) {
  std::ifstream file(name, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file || text.empty()) return Error{Errc::not_found, name + " cannot be read or is empty"};
  const ByteView view = view_of(text);
  return Bytes(view.begin(), view.end());
}

}  // namespace

Outcome<std::vector<Piece>> given_pieces(const Given& given) {
  BOOST_OUTCOME_TRY(const Bytes payloads, read_file(given.payloads));
  BOOST_OUTCOME_TRY(const Bytes answers, read_file(given.answers));
  std::size_t size = 1;
  for (const std::int64_t length : given.shape) size *= length > 0 ? static_cast<std::size_t>(length) : 0;
  const std::size_t count = size == 0 ? 0 : payloads.size() / size;
  if (count == 0 || payloads.size() % size != 0 || answers.size() % count != 0)
    return Error{Errc::bad_input, "payloads, answers and shape do not fit each other"};
  const std::size_t answer_size = answers.size() / count;
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < count; ++i) {
    wire::TensorSpec spec;
    spec.name = given.tensor;
    spec.dtype = wire::DType::uint8;
    spec.shape = given.shape;
    spec.bytes = size;
    const auto part = [](const Bytes& all, std::size_t number, std::size_t bytes) {
      const auto from = all.begin() + static_cast<std::ptrdiff_t>(number * bytes);
      return Bytes(from, from + static_cast<std::ptrdiff_t>(bytes));
    };
    Bytes plain = part(payloads, i, size);
    client::CodedInput input = client::store_input(std::move(spec), plain);
    std::vector<link::UploadSender::Input> uploads;
    uploads.push_back(std::move(input.upload));
    Piece piece{std::move(input.spec), link::UploadSender(std::move(uploads)), std::move(plain), {}};
    piece.fits_inline = size <= client::kInlineBytes;
    piece.task = given.task;
    piece.answer = part(answers, i, answer_size);
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

}  // namespace gearbox::load
