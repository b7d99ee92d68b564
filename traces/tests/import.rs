//! Every format by a small file of its own, what is refused and where, and what is mended and said.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::Write;

use flate2::{Compression, write::GzEncoder};
use meanfield_traces::{
    Error, Trace,
    export::write_csv,
    import::{Format, Imported, Limits, Mended, Options, Values, read_from},
};

fn read(text: &str) -> Result<Imported, Error> {
    read_from("x.csv", text.as_bytes(), &Options::default())
}

fn counts(imported: &Imported) -> Vec<(&str, Vec<f64>)> {
    imported.traces.iter().map(|trace| (trace.name.as_str(), trace.counts.clone())).collect()
}

fn mended(imported: &Imported) -> Vec<(Mended, u64, u64)> {
    imported.notes.iter().map(|note| (note.kind, note.count, note.line)).collect()
}

const AZURE: &str = "HashOwner,HashApp,HashFunction,Trigger,1,2,3\no,a,f,http,1,0,7\no,a,g,timer,0,0,2\n";
const REDUCED: &str = "id,pool,total,peak,1,2\ne7,A,5,3,2,3\n";
const INVOCATIONS: &str = "app,func,end_timestamp,duration\na,f,1.5,1.0\na,g,70,2\na,f,130,0\n";
const LLM: &str = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n\
                   2023-11-16 18:17:04.0319600,3180,8\n2023-11-16 18:19:04.5,110,27\n";
const WORLDCUP: &str = "period,count\n1998-04-30 21:30:00,2\n1998-04-30 21:31:00,11\n1998-04-30 21:32:00,16\n\
                        1998-04-30 21:35:00,4\n";
const PLAIN: &str = "time,requests\n0,5\n15,7.5\n30,1\n";
const PROMETHEUS: &str = r#"{"status":"success","data":{"resultType":"matrix","result":[
{"metric":{"__name__":"rps","pod":"a"},"values":[[1700000000,"2"],[1700000015,"4"],[1700000030,"NaN"],[1700000045,"6"]]},
{"metric":{},"values":[[1700000000.5,"1"],[1700000015.5,"0"]]}]}}"#;

#[test]
fn azure_minutes_by_function() {
    let imported = read(AZURE).unwrap();
    assert_eq!(counts(&imported), [("a/f", vec![1.0, 0.0, 7.0]), ("a/g", vec![0.0, 0.0, 2.0])]);
    assert_eq!((imported.traces[0].interval, imported.traces[0].start), (60.0, None));
    assert_eq!(mended(&imported), []);
    assert_eq!(counts(&read(REDUCED).unwrap()), [("e7", vec![2.0, 3.0])]);
}

#[test]
fn a_wrong_total_and_a_name_that_appears_again_are_said() {
    let imported = read("id,total,1,2\na,5,2,3\na,9,1,1\n").unwrap();
    assert_eq!(counts(&imported), [("a", vec![2.0, 3.0]), ("a#2", vec![1.0, 1.0])]);
    assert_eq!(mended(&imported), [(Mended::WrongTotal, 1, 3), (Mended::SameName, 1, 3)]);
    assert_eq!(imported.notes[0].to_string(), "1 stated totals differ from the sum of the counts, first at line 3");
}

#[test]
fn invocations_arrive_before_they_end() {
    let imported = read(INVOCATIONS).unwrap();
    assert_eq!(imported.events[0].times(), [0.5, 130.0]);
    assert_eq!(counts(&imported), [("a/f", vec![1.0, 0.0, 1.0]), ("a/g", vec![0.0, 1.0])]);
    let imported = read("app,func,end_timestamp,duration\na,f,9,1\na,f,5,1\na,f,1,2\n").unwrap();
    assert_eq!(imported.events[0].times(), [4.0, 8.0]);
    assert_eq!(mended(&imported), [(Mended::Unsorted, 1, 3), (Mended::BeforeStart, 1, 4)]);
}

#[test]
fn llm_requests_are_counted_from_the_first() {
    let imported = read(LLM).unwrap();
    assert_eq!(counts(&imported), [("requests", vec![2.0, 0.0, 1.0])]);
    assert_eq!(imported.traces[0].start, Some(1_700_158_623.979_96));
    let options = Options { interval: Some(1.0), ..Options::default() };
    assert_eq!(read_from("x", LLM.as_bytes(), &options).unwrap().traces[0].counts.len(), 121);
}

#[test]
fn a_log_without_a_line_had_no_request() {
    let imported = read(WORLDCUP).unwrap();
    assert_eq!(counts(&imported), [("worldcup98", vec![2.0, 11.0, 16.0, 0.0, 0.0, 4.0])]);
    assert_eq!(mended(&imported), [(Mended::GapsAsZero, 2, 5)]);
    assert_eq!(imported.traces[0].start, Some(893_971_800.0));
}

#[test]
fn plain_tables_are_wide_long_or_bare() {
    assert_eq!(counts(&read(PLAIN).unwrap()), [("requests", vec![5.0, 7.5, 1.0])]);
    assert_eq!(read(PLAIN).unwrap().traces[0].interval, 15.0);
    assert_eq!(counts(&read("0,5\n60,6\n").unwrap()), [("requests", vec![5.0, 6.0])]);
    let wide = read("timestamp,a,b\n2024-01-01T00:00:00Z,1,2\n2024-01-01T00:01:00Z,3,4\n").unwrap();
    assert_eq!(counts(&wide), [("a", vec![1.0, 3.0]), ("b", vec![2.0, 4.0])]);
    let long = read("series,time,requests\r\n\"a,b\",0,1\r\nc,0,9\r\n\"a,b\",60,2\r\nc,30,8\r\n").unwrap();
    assert_eq!(counts(&long), [("a,b", vec![1.0, 2.0]), ("c", vec![9.0, 8.0])]);
    assert_eq!((long.traces[0].interval, long.traces[1].interval), (60.0, 30.0));
}

#[test]
fn a_measurement_that_is_missing_lies_between_its_neighbours() {
    let imported = read("time,requests\n600,1\n660,2\n720,3\n900,9\n").unwrap();
    assert_eq!(imported.traces[0].counts, [1.0, 2.0, 3.0, 5.0, 7.0, 9.0]);
    assert_eq!(mended(&imported), [(Mended::Offset, 1, 2), (Mended::GapsOnLine, 2, 5)]);
}

#[test]
fn rates_become_counts() {
    let options = Options { values: Some(Values::Rates), ..Options::default() };
    assert_eq!(read_from("x", PLAIN.as_bytes(), &options).unwrap().traces[0].counts, [75.0, 112.5, 15.0]);
}

#[test]
fn prometheus_answers_are_rates() {
    let imported = read(PROMETHEUS).unwrap();
    let expected = [("rps{pod=\"a\"}", vec![30.0, 60.0, 75.0, 90.0]), ("requests", vec![15.0, 0.0])];
    assert_eq!(counts(&imported), expected);
    assert_eq!(mended(&imported), [(Mended::GapsOnLine, 1, 4)]);
    let options = Options { values: Some(Values::Counts), ..Options::default() };
    assert_eq!(read_from("x", PROMETHEUS.as_bytes(), &options).unwrap().traces[1].counts, [1.0, 0.0]);
}

#[test]
fn refusals_have_a_place_and_a_reason() {
    for (text, place, reason) in [
        ("id,pool,1,2\na,A,1,x\n", "x.csv:2:4: ", "\"x\" is not a number"),
        ("id,pool,1,2\na,A,1,2\nb,A,1\n", "x.csv:3:4: ", "3 columns where the first line has 4"),
        ("id,pool,1,2\na,A,1,-2\n", "x.csv:2:4: ", "-2 is not within"),
        ("id,pool,1,2\na,A,1,\n", "x.csv:2:4: ", "\"\" is not a number"),
        ("app,func,end_timestamp,duration\na,f,1,-1\n", "x.csv:2:4: ", "not a duration"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\nyesterday,1,2\n", "x.csv:2:1: ", "yesterday"),
        ("time,requests\n0,1\n60,2\n60,3\n", "x.csv:4:1: ", "the same time as at line 3"),
        ("time,requests\n0,1\n60,2\n30,3\n", "x.csv:4:1: ", "earlier than the time at line 3"),
        ("time,requests\n0,1\n60,2\n120,3\n150,3\n", "x.csv:5:1: ", "multiple of 60 s"),
        ("time,requests\n0,1\n2024-01-01 00:00:00,2\n", "x.csv:3:1: ", "mixed"),
        ("time,requests\nsoon,1\n", "x.csv:2:1: ", "RFC 3339"),
        ("time,requests\n0,\"1\n", "x.csv:2:2: ", "not closed"),
        ("nonsense\n1\n", "x.csv: ", "fits no known format: nonsense"),
        ("", "x.csv: ", "empty"),
        ("{\"status\":\n 7}", "x.csv:2:2: ", "expected a string"),
        ("{\"status\":\"error\",\"error\":\"bad query\"}", "x.csv: ", "bad query"),
        ("{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":[]}}", "x.csv: ", "matrix"),
        (
            "{\"status\":\"success\",\"data\":{\"resultType\":\"matrix\",\"result\":[{\"values\":\n[[1,\"-2\"]]}]}}",
            "x.csv:2:",
            "-2 is not within",
        ),
    ] {
        let line = read(text).unwrap_err().to_string();
        assert!(line.starts_with(place) && line.contains(reason), "{text}: {line}");
        assert!(!line.contains('\n'), "{line}");
    }
}

#[test]
fn what_is_too_much_is_refused_by_the_name_of_its_limit() {
    let generous = Limits::default();
    for (limits, reason) in [
        (Limits { bytes: 20, ..generous.clone() }, "20 bytes"),
        (Limits { line_bytes: 5, ..generous.clone() }, "line of more than 5 bytes"),
        (Limits { columns: 1, ..generous.clone() }, "more than 1 columns"),
        (Limits { samples: 2, ..generous }, "2 samples"),
    ] {
        let options = Options { limits, ..Options::default() };
        let line = read_from("x", PLAIN.as_bytes(), &options).unwrap_err().to_string();
        assert!(line.contains(reason), "{line}");
    }
    // Rows a long time apart do not fill the memory with what lies between.
    let options = Options { interval: Some(1.0), ..Options::default() };
    let apart = "time,requests\n0,1\n1,1\n2,1\n900000000,1\n";
    assert!(read_from("x", apart.as_bytes(), &options).unwrap_err().to_string().contains("intervals"));
}

#[test]
fn packed_files_are_told_by_their_first_bytes() {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(PLAIN.as_bytes()).unwrap();
    let gzip = gzip.finish().unwrap();
    assert_eq!(read_from("x", &gzip[..], &Options::default()).unwrap(), read(PLAIN).unwrap());
    let cut = read_from("x", &gzip[..gzip.len() - 9], &Options::default());
    assert!(matches!(cut, Err(Error::Io { .. })), "{cut:?}");
    // xz of "0,1\n60,2\n".
    let xz = XZ;
    assert_eq!(read_from("x", xz, &Options::default()).unwrap().traces[0].counts, [1.0, 2.0]);
    assert!(read_from("x", &xz[..30], &Options::default()).is_err());
}

const XZ: &[u8] = &[
    0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x0, 0x0, 0x4, 0xe6, 0xd6, 0xb4, 0x46, 0x2, 0x0, 0x21, 0x1, 0x16, 0x0, 0x0, 0x0,
    0x74, 0x2f, 0xe5, 0xa3, 0x1, 0x0, 0x8, 0x30, 0x2c, 0x31, 0xa, 0x36, 0x30, 0x2c, 0x32, 0xa, 0x0, 0x0, 0x0, 0x0,
    0xdf, 0x56, 0x51, 0xe6, 0x6f, 0xf7, 0x34, 0xc4, 0x0, 0x1, 0x21, 0x9, 0x6c, 0x18, 0xc5, 0xd5, 0x1f, 0xb6, 0xf3,
    0x7d, 0x1, 0x0, 0x0, 0x0, 0x0, 0x4, 0x59, 0x5a,
];

#[test]
fn a_format_can_be_forced() {
    let options = |format| Options { format: Some(format), ..Options::default() };
    assert!(read_from("x", WORLDCUP.as_bytes(), &options(Format::AzureMinutes)).is_err());
    let imported = read_from("x", WORLDCUP.as_bytes(), &options(Format::Csv)).unwrap();
    assert_eq!(imported.notes[0].kind, Mended::GapsOnLine);
}

#[test]
fn what_is_written_is_read_again() {
    for text in [AZURE, REDUCED, INVOCATIONS, WORLDCUP, PLAIN, PROMETHEUS] {
        let first = read(text).unwrap().traces;
        let mut csv = Vec::new();
        write_csv(&first, &mut csv).unwrap();
        // A series of one interval does not say how long it is; none of these has one.
        assert_eq!(read_from("again", &csv[..], &Options::default()).unwrap().traces, first);
    }
    let llm = read(LLM).unwrap().traces;
    let mut csv = Vec::new();
    write_csv(&llm, &mut csv).unwrap();
    let again = read_from("again", &csv[..], &Options::default()).unwrap().traces;
    let rounded = Trace { start: Some(1_700_158_623.98), ..llm[0].clone() };
    assert_eq!(again, [rounded], "times are kept to the millisecond");
}

#[test]
fn counts_are_not_invented_between_their_rows() {
    let rows = "time,requests\n0,100\n60,100\n120,100\n180,100\n";
    let finer = Options { interval: Some(15.0), ..Options::default() };
    let error = read_from("c.csv", rows.as_bytes(), &finer).unwrap_err().to_string();
    assert!(error.contains("60 s apart"), "{error}");
    let rates = Options { values: Some(Values::Rates), ..finer };
    assert!(read_from("c.csv", rows.as_bytes(), &rates).is_ok(), "a rate holds for every part of its minute");
    let uneven = "time,requests\n0,100\n60,100\n75,100\n";
    let error = read_from("d.csv", uneven.as_bytes(), &Options::default()).unwrap_err().to_string();
    assert!(error.contains("15 s and 60 s"), "{error}");
}
