from netesto.collectors import hardware, hostfacts

MACHINE = {
    "sys/devices/system/cpu/cpu0/topology/physical_package_id": "0",
    "sys/devices/system/cpu/cpu0/topology/core_id": "0",
    "sys/devices/system/cpu/cpu1/topology/physical_package_id": "0",
    "sys/devices/system/cpu/cpu1/topology/core_id": "0",
    "sys/devices/system/cpu/cpu2/topology/physical_package_id": "1",
    "sys/devices/system/cpu/cpu2/topology/core_id": "0",
    "sys/devices/system/cpu/cpu3/topology/physical_package_id": "1",
    "sys/devices/system/cpu/cpu3/topology/core_id": "0",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance",
    "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "powersave",
    "sys/devices/system/cpu/smt/control": "on",
    "sys/devices/system/node/node0/cpulist": "0-1",
    "sys/devices/system/node/node1/cpulist": "2-3",
    "sys/class/iommu/dmar0/name": "",
    "proc/cmdline": "root=UUID=1234 intel_iommu=on iommu=pt quiet isolcpus=2-3",
    "sys/class/net/e0/mtu": "9000",
    "sys/class/net/e0/queues/rx-0/rps_cpus": "0",
    "sys/class/net/e0/queues/rx-1/rps_cpus": "0",
    "sys/class/net/e0/queues/tx-0/xps_cpus": "1",
    "sys/class/net/e0/queues/tx-1/xps_cpus": "2",
    "sys/class/net/e0/device/numa_node": "1",
    "sys/class/net/e0/device/driver/name": "",
    "sys/class/net/e0/device/msi_irqs/41": "msix",
    "sys/class/net/e0/device/msi_irqs/101": "msix",
    "proc/irq/41/smp_affinity_list": "0",
    "proc/irq/101/smp_affinity_list": "2-3",
    "sys/class/net/veth0/mtu": "1500",
}


def machine(root):
    for path, text in MACHINE.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f"{text}\n")
    return root


def test_a_tuned_host_is_described(tmp_path):
    assert hardware.facts("e0", root=machine(tmp_path)) == {
        "IOMMU": "dmar0",
        "NUMA nodes": "0: 0-1; 1: 2-3",
        "SMT": "on",
        "cpu governors": "performance/powersave",
        "cpu sockets": "2",
        "interface IRQ affinity": "0 2-3",
        "interface NUMA node": "1",
        "interface driver": "driver",
        "interface mtu": "9000",
        "interface rps_cpus": "0",
        "interface rx queues": "2",
        "interface tx queues": "2",
        "interface xps_cpus": "1/2",
        "kernel command line": "intel_iommu=on iommu=pt isolcpus=2-3",
        "threads per core": "2",
    }


def test_a_virtual_interface_has_no_hardware(tmp_path):
    found = hardware.facts("veth0", root=machine(tmp_path))
    assert {name for name in found if name.startswith("interface")} == {"interface mtu"}


def test_of_an_empty_machine_nothing_is_known(tmp_path):
    assert hardware.facts("e0", root=tmp_path) == {"IOMMU": "off"}


TEXTS = {
    "info": "host: a\nkernel: 6.1\nuptime: 5 s\ncpu model: X\n",
    "hardware": "SMT: on\n",
    "ethtool-k": "Features for e0:\nrx-checksumming: on\nloopback: off [fixed]\n",
    "ethtool-g": "Pre-set maximums:\nRX:\t4096\nCurrent hardware settings:\nRX:\t512\nTX:\tn/a\n",
    "ethtool-a": "netlink error: Operation not supported\nethtool -a e0: exit status 76\n",
    "sysctl": "net.ipv4.tcp_rmem = 4096\t131072\t6291456\nnet.ipv4.tcp_fastopen_key = 1-2\n"
    "net.ipv4.conf.all.forwarding = 1\nnet.core.netdev_rss_key = 1:2\n",
}


def test_notable_facts_are_those_that_stay_and_matter():
    assert hostfacts.notable(TEXTS) == {
        "SMT": "on",
        "cpu model": "X",
        "ethtool -g RX": "512",
        "ethtool -k loopback": "off",
        "ethtool -k rx-checksumming": "on",
        "kernel": "6.1",
        "net.ipv4.tcp_rmem": "4096 131072 6291456",
    }


def test_a_host_that_says_too_much_is_cut_off():
    found = hostfacts.notable({"hardware": "".join(f"{n}: {'x' * 999}\n" for n in range(9999))})
    assert (len(found), max(map(len, found.values()))) == (500, 300)
