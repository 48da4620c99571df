#include "net/frame_reader.hpp"

#include <algorithm>
#include <cstring>

namespace gearbox::net {

void ReadAhead::drop(std::size_t bytes) {
  begin_ += bytes;
  if (begin_ == end_) release();
}

void ReadAhead::release() {
  begin_ = end_ = 0;
  give_back(std::move(block_));
}

Outcome<std::size_t> ReadAhead::fill(ByteStream& from) {
  if (!block_) block_ = take_block();
  if (begin_ != 0) {  // what is kept is less than one header or one small body: cheap to move
    std::memmove(block_->data(), block_->data() + begin_, size());
    end_ -= begin_;
    begin_ = 0;
  }
  Outcome<std::size_t> got = from.read_some(ByteSpan(*block_).subspan(end_));
  if (got) end_ += got.value();
  if (begin_ == end_) release();
  return got;
}

Error FrameReader::broken(Error error) {
  broken_ = error;
  return error;
}

/// What the end of the peer's bytes means at this place.
Error FrameReader::cut(Error error, bool inside_frame) const {
  if (error.code != Errc::closed || !bytes_.is_open()) return error;
  if (inside_frame) return Error{Errc::io_error, "the connection was cut in the middle of a frame"};
  if (channel_) return Error{Errc::io_error, "the connection was cut: the peer did not say its end"};
  return error;
}

asio::awaitable<Outcome<ByteView>> FrameReader::gather(std::size_t bytes, Outcome<void> (*look_at)(ByteView),
                                                       Instant deadline) {
  while (ahead_.size() < bytes) {
    Outcome<std::size_t> got = ahead_.fill(bytes_);
    if (!got) co_return cut(got.error(), ahead_.size() != 0);
    if (got.value() == 0) {
      Outcome<void> ready = co_await bytes_.wait_readable(deadline);
      if (!ready) co_return ready.error();
    } else if (look_at != nullptr) {
      Outcome<void> plausible = look_at(ahead_.view());
      if (!plausible) co_return plausible.error();
    }
  }
  co_return ahead_.view().first(bytes);
}

asio::awaitable<Outcome<wire::FrameHeader>> FrameReader::header(Instant deadline) {
  if (broken_) co_return *broken_;
  if (body_bytes_ != 0) {
    Outcome<void> skipped = co_await skip(deadline);
    if (!skipped) co_return *broken_;
  }
  const std::size_t bytes = wire::kHeaderBytes + (channel_ ? link::kSealBytes : 0);
  // As gather() does it, without a frame for it: this is where each idle connection waits, and holds what it needs to.
  while (ahead_.size() < bytes) {
    Outcome<std::size_t> got = ahead_.fill(bytes_);
    if (!got) co_return broken(cut(got.error(), ahead_.size() != 0));
    if (got.value() != 0) continue;
    Outcome<void> ready = co_await bytes_.wait_readable(deadline);
    if (ready) continue;
    if (ready.error().code == Errc::timeout) co_return ready.error();
    co_return broken(ready.error());
  }
  co_return open_header();
}

Outcome<wire::FrameHeader> FrameReader::open_header() {
  if (channel_) {
    const ByteView sealed = ahead_.view().first(wire::kHeaderBytes + link::kSealBytes);
    Outcome<void> opened = channel_->open(sealed, {}, plain_header_);
    if (!opened) return broken(opened.error());
    ahead_.drop(sealed.size());
    if (channel_->peer_finished()) return broken(Error{Errc::closed, "the peer ended the connection"});
  } else {
    std::memcpy(plain_header_.data(), ahead_.view().data(), wire::kHeaderBytes);
    ahead_.drop(wire::kHeaderBytes);
  }
  Outcome<wire::FrameHeader> header = wire::parse_header(plain_header_);
  if (!header) return broken(header.error());
  body_bytes_ = std::size_t{header.value().json_bytes} + header.value().payload_bytes;
  return header;
}

asio::awaitable<Outcome<void>> FrameReader::body(ByteSpan out, Instant deadline) {
  return take_body(out, false, deadline);
}

asio::awaitable<Outcome<void>> FrameReader::skip(Instant deadline) {
  return take_body({}, true, deadline);
}

asio::awaitable<Outcome<void>> FrameReader::take_body(ByteSpan out, bool skip, Instant deadline) {
  if (broken_) co_return *broken_;
  if (body_bytes_ == 0) co_return done();
  Outcome<void> taken = done();
  if (channel_) {
    taken = co_await sealed_body(out, deadline);
  } else if (skip) {
    taken = co_await skip_plain(deadline);
  } else {
    taken = co_await plain_body(out, deadline);
  }
  if (!taken && taken.error().code == Errc::timeout) {
    // Later reads must not say "timeout", which for a header means "all is well, ask again".
    broken(Error{Errc::io_error, "the peer stopped in the middle of a frame"});
    co_return taken;
  }
  if (!taken) co_return broken(cut(taken.error(), true));
  body_bytes_ = 0;
  co_return done();
}

/// Takes one sealed record apart as its bytes come: head, plain bytes, tail. Where to put them: `out`, or, when that is
/// empty, nowhere (they are still authenticated).
class FrameReader::Record {
 public:
  Record(link::SecureChannel& channel, ByteView additional, std::size_t plain_bytes, ByteSpan out)
      : channel_(channel), additional_(additional), left_(plain_bytes), out_(out) {}

  std::size_t wanted() const { return (begun_ ? 0 : 1) + left_ + (tail_.size() - tail_bytes_); }

  /// `sealed` is at most wanted(); when there is no `out` its memory is written to.
  Outcome<void> feed(ByteSpan sealed) {
    if (!begun_ && !sealed.empty()) {
      BOOST_OUTCOME_TRY(channel_.open_begin(additional_, sealed.front()));
      begun_ = true;
      sealed = sealed.subspan(1);
    }
    const std::size_t now = std::min(left_, sealed.size());
    if (now != 0) {
      const ByteSpan to = out_.empty() ? sealed.first(now) : out_.subspan(opened_, now);
      channel_.open_part(sealed.first(now), to);
      opened_ += now;
      left_ -= now;
      sealed = sealed.subspan(now);
    }
    std::copy(sealed.begin(), sealed.end(), tail_.begin() + static_cast<std::ptrdiff_t>(tail_bytes_));
    tail_bytes_ += sealed.size();
    if (wanted() != 0) return done();
    return channel_.open_end(tail_);
  }

 private:
  link::SecureChannel& channel_;
  ByteView additional_;
  std::size_t left_;
  ByteSpan out_;
  std::size_t opened_ = 0;
  bool begun_ = false;
  std::array<std::byte, link::kSealBytes - 1> tail_{};
  std::size_t tail_bytes_ = 0;
};

asio::awaitable<Outcome<void>> FrameReader::sealed_body(ByteSpan out, Instant deadline) {
  if (const std::size_t whole = body_bytes_ + link::kSealBytes; !out.empty() && ahead_.size() >= whole) {
    Outcome<void> opened = channel_->open(ahead_.view().first(whole), plain_header_, out);
    if (opened) ahead_.drop(whole);
    co_return opened;
  }
  Record record(*channel_, plain_header_, body_bytes_, out);
  for (;;) {
    // What was read ahead comes first, then the rest through the scratch, never beyond the record's end.
    const ByteSpan room = scratch();
    std::size_t bytes = std::min(ahead_.size(), record.wanted());
    if (bytes != 0) {
      std::memcpy(room.data(), ahead_.view().data(), bytes);
      ahead_.drop(bytes);
    } else {
      // A long rest goes straight to the scratch; a short one is read together with what follows it.
      Outcome<std::size_t> got = record.wanted() <= kReadAheadBytes
                                     ? ahead_.fill(bytes_)
                                     : bytes_.read_some(room.first(std::min(room.size(), record.wanted())));
      if (!got) co_return got.error();
      if (got.value() == 0) {
        Outcome<void> ready = co_await bytes_.wait_readable(deadline, record.wanted());
        if (!ready) co_return ready.error();
        continue;
      }
      if (ahead_.size() != 0) continue;
      bytes = got.value();
    }
    Outcome<void> fed = record.feed(room.first(bytes));
    if (!fed) co_return fed.error();
    if (record.wanted() == 0) co_return done();
  }
}

asio::awaitable<Outcome<void>> FrameReader::plain_body(ByteSpan out, Instant deadline) {
  while (!out.empty()) {
    std::size_t bytes = std::min(ahead_.size(), out.size());
    if (bytes != 0) {
      std::memcpy(out.data(), ahead_.view().data(), bytes);
      ahead_.drop(bytes);
    } else {
      Outcome<std::size_t> got = bytes_.read_some(out);
      if (!got) co_return got.error();
      bytes = got.value();
      if (bytes == 0) {
        Outcome<void> ready = co_await bytes_.wait_readable(deadline);
        if (!ready) co_return ready.error();
      }
    }
    out = out.subspan(bytes);
  }
  co_return done();
}

asio::awaitable<Outcome<void>> FrameReader::skip_plain(Instant deadline) {
  std::size_t left = body_bytes_;
  while (left != 0) {
    const std::size_t bytes = std::min(left, kScratchBytes);
    const std::size_t held = std::min(ahead_.size(), bytes);
    if (held != 0) {
      ahead_.drop(held);
      left -= held;
      continue;
    }
    Outcome<std::size_t> got = bytes_.read_some(scratch().first(bytes));
    if (!got) co_return got.error();
    left -= got.value();
    if (got.value() == 0) {
      Outcome<void> ready = co_await bytes_.wait_readable(deadline);
      if (!ready) co_return ready.error();
    }
  }
  co_return done();
}

}  // namespace gearbox::net
