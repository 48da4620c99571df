#include "plugin_host/elf_check.hpp"

#include <elf.h>

#include <cstring>
#include <optional>
#include <string>

#include "gearbox/base/text.hpp"
#include "gearbox/plugin/descriptor.hpp"

namespace gearbox::plugin_host {

namespace {

#if defined(__x86_64__)
constexpr std::uint16_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr std::uint16_t kMachine = EM_AARCH64;
#else
#error "name this machine's ELF number here"
#endif

Error refused(std::string why) {
  return Error{Errc::bad_plugin, std::move(why)};
}

/// A copy of the struct at `offset`; nothing when it is not whole inside the file.
template <class T>
std::optional<T> read_at(ByteView file, std::uint64_t offset) {
  if (offset > file.size() || file.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, file.data() + offset, sizeof value);
  return value;
}

bool lies_inside(ByteView file, std::uint64_t offset, std::uint64_t bytes) {
  return offset <= file.size() && bytes <= file.size() - offset;
}

Outcome<Elf64_Ehdr> read_header(ByteView file) {
  if (file.empty()) return refused("is empty");
  const auto header = read_at<Elf64_Ehdr>(file, 0);
  if (file.size() < SELFMAG || std::memcmp(file.data(), ELFMAG, SELFMAG) != 0)
    return refused("is no library (no ELF magic)");
  if (!header) return refused("is cut: " + std::to_string(file.size()) + " bytes hold no ELF header");
  if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB) {
    return refused("is for another kind of machine (not 64-bit little-endian)");
  }
  if (header->e_machine != kMachine) {
    return refused("is for another machine (ELF number " + std::to_string(header->e_machine) + ", here " +
                   std::to_string(kMachine) + ")");
  }
  if (header->e_type != ET_DYN) return refused("is no shared library");
  return *header;
}

Outcome<void> check_segments(ByteView file, const Elf64_Ehdr& header) {
  if (header.e_phnum == 0 || header.e_phentsize != sizeof(Elf64_Phdr)) return refused("has no usable program headers");
  for (std::uint32_t i = 0; i < header.e_phnum; ++i) {
    const auto segment = read_at<Elf64_Phdr>(file, header.e_phoff + std::uint64_t{i} * sizeof(Elf64_Phdr));
    if (!segment || !lies_inside(file, segment->p_offset, segment->p_filesz)) {
      return refused("is cut: its segments reach past its " + std::to_string(file.size()) + " bytes");
    }
  }
  return done();
}

/// The section headers stand at a library's end: that is how a missing last byte is noticed.
Outcome<void> check_sections(ByteView file, const Elf64_Ehdr& header) {
  if (header.e_shnum == 0 || header.e_shentsize != sizeof(Elf64_Shdr)) return refused("has no section headers");
  for (std::uint32_t i = 0; i < header.e_shnum; ++i) {
    const auto section = read_at<Elf64_Shdr>(file, header.e_shoff + std::uint64_t{i} * sizeof(Elf64_Shdr));
    const bool whole =
        section && (section->sh_type == SHT_NOBITS || lies_inside(file, section->sh_offset, section->sh_size));
    if (!whole) return refused("is cut: its sections reach past its " + std::to_string(file.size()) + " bytes");
  }
  return done();
}

std::string_view string_at(ByteView file, const Elf64_Shdr& table, std::uint32_t offset) {
  if (offset >= table.sh_size) return {};
  const std::string_view rest = text_of(file.subspan(table.sh_offset + offset, table.sh_size - offset));
  return rest.substr(0, rest.find('\0'));
}

Outcome<void> check_symbols(ByteView file, const Elf64_Ehdr& header) {
  bool exported = false;
  for (std::uint32_t i = 0; i < header.e_shnum; ++i) {
    const auto section = read_at<Elf64_Shdr>(file, header.e_shoff + std::uint64_t{i} * sizeof(Elf64_Shdr));
    if (!section || section->sh_type != SHT_DYNSYM) continue;
    if (section->sh_link >= header.e_shnum) return refused("has a symbol table without names");
    const auto names = read_at<Elf64_Shdr>(file, header.e_shoff + std::uint64_t{section->sh_link} * sizeof(Elf64_Shdr));
    if (!names || names->sh_type != SHT_STRTAB) return refused("has a symbol table without names");
    for (std::uint64_t at = 0; at + sizeof(Elf64_Sym) <= section->sh_size; at += sizeof(Elf64_Sym)) {
      const auto symbol = read_at<Elf64_Sym>(file, section->sh_offset + at);
      if (!symbol || symbol->st_shndx == SHN_UNDEF) continue;
      const std::string_view name = string_at(file, *names, symbol->st_name);
      if (ELF64_ST_BIND(symbol->st_info) == STB_GNU_UNIQUE) {
        return refused("has the unique symbol " + escaped(name, 128) +
                       " and could never be unloaded: build it with -fno-gnu-unique");
      }
      if (name != "gearbox_plugin") continue;
      if (ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT || symbol->st_size < sizeof(plugin::Descriptor)) {
        return refused("exports a gearbox_plugin that is no descriptor");
      }
      exported = true;
    }
  }
  if (!exported) return refused("exports no gearbox_plugin");
  return done();
}

}  // namespace

Outcome<void> check_elf(ByteView file) {
  BOOST_OUTCOME_TRY(const Elf64_Ehdr header, read_header(file));
  BOOST_OUTCOME_TRY(check_segments(file, header));
  BOOST_OUTCOME_TRY(check_sections(file, header));
  return check_symbols(file, header);
}

}  // namespace gearbox::plugin_host
