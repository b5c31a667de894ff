from netesto.results import hostdiffs
from netesto.results.hostdiffs import Difference

A = {"kernel": "6.1", "net.ipv4.tcp_rmem": "1 2 3", "SMT": "on"}
B = {"kernel": "6.8", "net.ipv4.tcp_rmem": "1 2 3"}


def test_hosts_differ_in_values_and_in_what_is_unknown():
    assert hostdiffs.among({"a": A, "b": B, "c": A}) == [
        Difference("SMT", {"on": ("a", "c"), "": ("b",)}),
        Difference("kernel", {"6.1": ("a", "c"), "6.8": ("b",)}),
    ]


def test_a_host_of_which_nothing_is_known_does_not_differ():
    assert hostdiffs.among({"a": A, "b": {}}) == []


def test_shared_facts_are_those_of_all_hosts():
    assert hostdiffs.shared({"a": A, "b": B}) == {"net.ipv4.tcp_rmem": "1 2 3"}


def test_nothing_is_shared_with_a_host_that_is_not_known():
    assert hostdiffs.shared({"a": A, "b": {}}) == {}


def test_hosts_that_changed_alike_are_named_together():
    before, after = {"a": A, "b": A}, {"a": B, "b": B}
    assert list(hostdiffs.sentences([before], [after])) == [
        "a, b differ between the folders in: SMT (on → unknown), kernel (6.1 → 6.8)."
    ]


def test_values_that_vary_alike_in_both_folders_are_no_difference():
    sweep = [{"a": {"ecn": "0"}}, {"a": {"ecn": "1"}}]
    assert list(hostdiffs.sentences(sweep, sweep[::-1])) == []


def test_of_many_differences_some_are_named_and_all_counted():
    one = {f"f{number}": "0" for number in range(10)}
    [said] = hostdiffs.sentences([{"a": one}], [{"a": dict.fromkeys(one, "1")}])
    assert said.startswith("a differs between the folders in: f0 (0 → 1), f1 (0 → 1)")
    assert said.endswith("f7 (0 → 1) and 2 more.")


def test_a_host_of_one_folder_only_is_not_compared():
    assert list(hostdiffs.sentences([{"a": A}], [{"b": B}])) == []
