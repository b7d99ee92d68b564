//! No bytes make an importer panic, and what it accepts is sound.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use meanfield_traces::{
    export::write_csv,
    import::{Format, Limits, Options, read_from},
};
use proptest::prelude::*;

const FORMATS: [Option<Format>; 7] = [
    None,
    Some(Format::AzureMinutes),
    Some(Format::AzureInvocations),
    Some(Format::AzureLlm),
    Some(Format::Worldcup),
    Some(Format::Csv),
    Some(Format::Prometheus),
];

const VALID: [&str; 7] = [
    "HashOwner,HashApp,HashFunction,Trigger,1,2,3\no,a,f,http,1,0,7\no,a,g,timer,0,0,2\n",
    "id,pool,total,peak,1,2\ne7,A,5,3,2,3\n",
    "app,func,end_timestamp,duration\na,f,1.5,1.0\na,g,70,2\na,f,130,0\n",
    "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:19:04.5,110,27\n",
    "period,count\n1998-04-30 21:30:00,2\n1998-04-30 21:31:00,11\n1998-04-30 21:35:00,4\n",
    "series,time,requests\n\"a,\"\"b\",0,1\nc,1700000000,9\n\"a,\"\"b\",60,2\n",
    r#"{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"a":"b"},"values":[[1,"2"],[3,"NaN"],[5,"2"]]}]}}"#,
];

fn check(bytes: &[u8], format: Option<Format>) {
    let limits = Limits { bytes: 1 << 20, samples: 1 << 16, ..Limits::default() };
    let options = Options { format, limits, ..Options::default() };
    if let Ok(imported) = read_from("any", bytes, &options) {
        for trace in &imported.traces {
            assert!(trace.interval > 0.0 && trace.counts.iter().all(|count| count.is_finite() && *count >= 0.0));
            let _ = trace.rates(trace.interval / 4.0, 1);
        }
        write_csv(&imported.traces, std::io::sink()).unwrap();
    }
}

proptest! {
    #[test]
    fn random_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        for format in FORMATS {
            check(&bytes, format);
        }
        for magic in [&[0x1f, 0x8b, 8, 0][..], &[0xfd, b'7', b'z', b'X', b'Z', 0, 0, 4]] {
            check(&[magic, &bytes].concat(), None);
        }
    }

    #[test]
    fn valid_files_with_mistakes(
        file in 0..VALID.len(),
        mistakes in prop::collection::vec((any::<prop::sample::Index>(), 0..4_u8, any::<u8>()), 1..6),
    ) {
        let mut bytes = VALID[file].as_bytes().to_vec();
        for (place, kind, byte) in mistakes {
            let at = place.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => bytes[at] = b"0123456789-.,\"\ne[]{}:TZ"[usize::from(byte) % 23],
                2 => bytes.insert(at, byte),
                _ if bytes.len() > 1 => drop(bytes.remove(at)),
                _ => {}
            }
        }
        for format in FORMATS {
            check(&bytes, format);
        }
    }
}
