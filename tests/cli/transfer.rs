//! `export`, `import` and `capacity`.

use std::fs;

use crate::harness::{Folder, run};

fn filter(store: &str, input: &[u8]) -> Vec<u8> {
    run(&["filter", "--store", store], input).quiet_success()
}

/// Two stores with one secret: the second began as a copy of the first.
fn two_stores(folder: &Folder) -> (String, String) {
    let (one, other) = (format!("{}/one", folder.path()), format!("{}/other", folder.path()));
    filter(&one, b"both\n");
    fs::create_dir(&other).expect("a folder");
    for entry in fs::read_dir(&one).expect("a store").flatten() {
        fs::copy(entry.path(), format!("{other}/{}", entry.file_name().display())).expect("a copy");
    }
    (one, other)
}

#[test]
fn lines_exported_and_imported_are_dropped_there() {
    let folder = Folder::new("transfer");
    let (one, other) = two_stores(&folder);
    filter(&one, b"a\nb\nc\n");
    filter(&other, b"c\nd\n");
    let bytes = run(&["export", &one], b"").quiet_success();
    assert_eq!(bytes.len(), 64 + 16 + 4 * 24 + 8 + 32);
    let said = run(&["import", &other], &bytes).quiet_success();
    assert_eq!(said, b"4 IDs read, 2 of them new here or seen for longer\n");
    // Twice, and two of them behind each other.
    let back = run(&["export", &other], b"").quiet_success();
    let said = run(&["import", "--json", &other], &[bytes, back].concat()).quiet_success();
    assert_eq!(said, b"{\"facts\":9,\"changed\":0}\n");
    assert_eq!(filter(&other, b"a\nb\nc\nd\ne\nboth\n"), b"e\n");
    assert_eq!(filter(&one, b"d\n"), b"d\n");
}

#[test]
fn import_of_what_is_no_whole_export_is_refused() {
    let folder = Folder::new("transfer-refused");
    let (one, other) = two_stores(&folder);
    let bytes = run(&["export", &one], b"").quiet_success();
    for input in [&bytes[..bytes.len() - 1], b"", b"both\n", &[bytes.as_slice(), b"x"].concat()] {
        let run = run(&["import", &other], input);
        assert!(run.refusal().contains("damaged or not whole"), "{}", run.stderr);
    }
    let stranger = format!("{}/stranger", folder.path());
    filter(&stranger, b"x\n");
    let run = run(&["import", &stranger], &bytes);
    assert!(run.refusal().contains("another secret"), "{}", run.stderr);
}

#[test]
fn store_that_is_not_there_is_neither_exported_nor_made() {
    let folder = Folder::new("transfer-none");
    let none = format!("{}/none", folder.path());
    for command in ["export", "import"] {
        assert!(run(&[command, &none], b"").refusal().contains("there is no store"));
        assert!(run(&[command], b"").refusal().contains("name its directory"));
    }
    assert!(!fs::exists(none).expect("a folder"));
}

#[test]
fn capacity_names_what_a_store_takes() {
    let text = |arguments: &[&str]| {
        String::from_utf8(run(arguments, b"").quiet_success()).expect("figures are ASCII")
    };
    let table = text(&["capacity", "--keys", "1e9", "--window", "30d", "--rate", "200/s"]);
    for part in ["1,000,000,000 seen at one time", "16 ms late", "32.8 bytes an ID", "0.54 %", "tables a day"]
    {
        assert!(table.contains(part), "{part} in {table}");
    }
    let json = text(&["capacity", "--keys=10M", "--json"]);
    assert!(json.starts_with("{\"keys\":10000000,\"keys_held\":10000000,\"tick_ms\":0,"), "{json}");
    let by_rate = text(&["capacity", "--rate", "100", "--window", "10s", "--json"]);
    assert!(
        by_rate.starts_with("{\"keys\":1000,") && by_rate.contains("\"filled_after_seconds\":10}"),
        "{by_rate}"
    );
    assert!(run(&["capacity"], b"").refusal().contains("--keys"));
    assert!(run(&["capacity", "--keys", "many"], b"").refusal().contains("--keys"));
}
