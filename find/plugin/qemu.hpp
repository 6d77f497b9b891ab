// SPDX-License-Identifier: MIT
// The few functions of qemu's plugin interface, version 1, that the plugin calls: Debian packages no header.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

using qemu_plugin_id_t = std::uint64_t;
using qemu_plugin_meminfo_t = std::uint32_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;

// Only the beginning of what qemu hands over: the name of the emulated architecture.
struct qemu_info_t {
    const char *target_name;
};

enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS };
enum qemu_plugin_mem_rw { QEMU_PLUGIN_MEM_R = 1, QEMU_PLUGIN_MEM_W, QEMU_PLUGIN_MEM_RW };

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, void (*call)(qemu_plugin_id_t, qemu_plugin_tb *));
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, void (*call)(qemu_plugin_id_t, void *), void *given);
void qemu_plugin_register_vcpu_syscall_cb(qemu_plugin_id_t id,
                                          void (*call)(qemu_plugin_id_t, unsigned vcpu, std::int64_t number, std::uint64_t,
                                                       std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t,
                                                       std::uint64_t, std::uint64_t, std::uint64_t));
void qemu_plugin_register_vcpu_syscall_ret_cb(qemu_plugin_id_t id, void (*call)(qemu_plugin_id_t, unsigned vcpu,
                                                                                std::int64_t number, std::int64_t answer));
// The program as it was named to qemu; the caller frees it.
const char *qemu_plugin_path_to_binary();
std::size_t qemu_plugin_tb_n_insns(const qemu_plugin_tb *block);
qemu_plugin_insn *qemu_plugin_tb_get_insn(const qemu_plugin_tb *block, std::size_t index);
std::uint64_t qemu_plugin_insn_vaddr(const qemu_plugin_insn *instruction);
const void *qemu_plugin_insn_data(const qemu_plugin_insn *instruction);
std::size_t qemu_plugin_insn_size(const qemu_plugin_insn *instruction);
void qemu_plugin_register_vcpu_mem_cb(qemu_plugin_insn *instruction,
                                      void (*call)(unsigned vcpu, qemu_plugin_meminfo_t info, std::uint64_t address,
                                                   void *given),
                                      qemu_plugin_cb_flags flags, qemu_plugin_mem_rw what, void *given);
void qemu_plugin_register_vcpu_insn_exec_cb(qemu_plugin_insn *instruction, void (*call)(unsigned vcpu, void *given),
                                            qemu_plugin_cb_flags flags, void *given);
bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info);
unsigned qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t info);
}
