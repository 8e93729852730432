//! Processors near devices, on machines that are made of files.

use flambeau_distributed::internal::{numa_list, numa_processors};
use flambeau_distributed::numa::AffinityMode;

struct Machine {
    dir: tempfile::TempDir,
    visible: Option<&'static str>,
}
impl Machine {
    fn processors(&self, mode: AffinityMode, local_rank: i64) -> flambeau_core::Result<String> {
        numa_processors(self.dir.path(), self.visible, mode, local_rank)
    }
}

/// Two sockets of two nodes of two cores of two processors each; processors p and p + 8 are one core; a node has one cache,
/// node 0 has two. Devices 0 and 1 are at node 1, device 2 at node 3, device 3 says -1.
fn machine() -> Machine {
    let dir = tempfile::tempdir().unwrap();
    let put = |path: String, text: &str| {
        let p = dir.path().join(path);
        std::fs::create_dir_all(p.parent().unwrap()).unwrap();
        std::fs::write(p, text).unwrap();
    };
    for n in 0..4 {
        let (a, b) = (2 * n, 2 * n + 1);
        put(format!("sys/devices/system/node/node{n}/cpulist"), &format!("{a}-{b},{}-{}\n", a + 8, b + 8));
    }
    put("sys/devices/system/node/possible".into(), "0-3\n");
    for p in 0..16 {
        let cpu = format!("sys/devices/system/cpu/cpu{p}");
        let core = p % 8;
        put(format!("{cpu}/topology/thread_siblings_list"), &format!("{core},{}\n", core + 8));
        put(format!("{cpu}/topology/physical_package_id"), &format!("{}\n", core / 4));
        let node = core / 2;
        let last = match (node, core) {
            (0, c) => format!("{c},{}", c + 8),
            (n, _) => format!("{}-{},{}-{}", 2 * n, 2 * n + 1, 2 * n + 8, 2 * n + 9),
        };
        for (i, kind, level, list) in
            [(0, "Data", 1, "99"), (1, "Instruction", 4, "98"), (2, "Unified", 3, last.as_str())]
        {
            put(format!("{cpu}/cache/index{i}/type"), &format!("{kind}\n"));
            put(format!("{cpu}/cache/index{i}/level"), &format!("{level}\n"));
            put(format!("{cpu}/cache/index{i}/shared_cpu_list"), &format!("{list}\n"));
        }
    }
    let device = |address: &str, vendor: &str, class: &str, node: &str| {
        let d = format!("sys/bus/pci/devices/{address}");
        put(format!("{d}/vendor"), vendor);
        put(format!("{d}/class"), class);
        put(format!("{d}/numa_node"), node);
    };
    device("0000:01:00.0", "0x10de\n", "0x030200\n", "1\n");
    device("0000:02:00.0", "0x10de\n", "0x030000\n", "1\n");
    device("0000:03:00.0", "0x8086\n", "0x030000\n", "0\n");
    device("0000:04:00.0", "0x10de\n", "0x040300\n", "0\n");
    device("0000:81:00.0", "0x10de\n", "0x030200\n", "3\n");
    device("0000:c1:00.0", "0x10de\n", "0x030200\n", "-1\n");
    put("proc/self/status".into(), "Name:\tx\nCpus_allowed_list:\t0-13,15\n");
    Machine { dir, visible: None }
}

#[test]
fn lists_are_read_and_written() {
    for text in ["", "0", "0-2,4,6-7", "3,5,7"] {
        assert_eq!(numa_list(text).unwrap(), text);
    }
    for text in ["x", "1-", "-1", "0-4000000000", "1-2-3"] {
        assert!(numa_list(text).is_err(), "{text}");
    }
}
#[test]
fn each_way_finds_its_processors() {
    let m = machine();
    use AffinityMode::*;
    let cases = [
        (Node, 0, "2-3,10-11"),
        (Node, 1, "2-3,10-11"),
        (Node, 3, "0-1,8-9"),
        // processor 14 is not allowed
        (Node, 2, "6-7,15"),
        (Socket, 0, "0-3,8-11"),
        (Socket, 2, "4-7,12-13,15"),
        (Exclusive, 0, "2,10"),
        (Exclusive, 1, "3,11"),
        (Exclusive, 2, "6-7,15"),
        (CoreComplex, 0, "2-3,10-11"),
        (CoreComplex, 1, "2-3,10-11"),
        (CoreComplex, 3, "0,8"),
    ];
    for (mode, rank, want) in cases {
        assert_eq!(m.processors(mode, rank).unwrap(), want, "{mode:?} {rank}");
    }
    for rank in [-1, 4, i64::MAX] {
        assert!(m.processors(Node, rank).is_err());
    }
}
#[test]
fn devices_that_are_not_seen_do_not_count() {
    let mut m = machine();
    let near = |m: &Machine, rank| m.processors(AffinityMode::Node, rank);
    m.visible = Some("2,1");
    assert_eq!([near(&m, 0).unwrap(), near(&m, 1).unwrap()], ["6-7,15", "2-3,10-11"]);
    assert!(near(&m, 2).is_err());
    m.visible = Some("1,-1,2");
    assert_eq!(near(&m, 0).unwrap(), "2-3,10-11");
    assert!(near(&m, 1).is_err());
    m.visible = Some("");
    assert!(near(&m, 0).is_err());
    m.visible = Some("GPU-1");
    assert!(near(&m, 0).unwrap_err().message().contains("by number"));
}
#[test]
fn too_few_cores_and_no_device_are_errors() {
    let m = machine();
    std::fs::write(m.dir.path().join("sys/devices/system/node/node1/cpulist"), "2").unwrap();
    let e = m.processors(AffinityMode::Exclusive, 1).unwrap_err();
    assert_eq!(
        e.message(),
        "There are only 1 physical cores on numa_node_index=1, but there are 2 devices associated with this NUMA node."
    );
    let m = Machine { dir: tempfile::tempdir().unwrap(), visible: None };
    let e = m.processors(AffinityMode::Node, 0).unwrap_err();
    assert_eq!(e.message(), "No accelerator available for NUMA binding");
}
