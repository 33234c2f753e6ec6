from broker.contract.exits import EXIT_CODES, FAULTS_FOUND, USAGE
from broker.contract.reasons import Category


def test_every_category_has_an_exit_code_and_no_other_has() -> None:
    assert {category.value for category in Category} == set(EXIT_CODES)


def test_success_alone_exits_with_zero() -> None:
    assert [name for name, code in EXIT_CODES.items() if code == 0] == ["success"]


def test_exit_codes_tell_categories_apart() -> None:
    assert len(set(EXIT_CODES.values())) == len(EXIT_CODES)


def test_no_category_takes_the_codes_of_shell_or_argparse() -> None:
    reserved = {FAULTS_FOUND, 2, 126, 127, *range(128, 256)}

    assert not reserved & set(EXIT_CODES.values())


def test_a_wrong_request_and_wrong_usage_exit_alike() -> None:
    assert USAGE == EXIT_CODES["invalid_request"]
