//! The four tables as rows (section "Database schema" of the description), partitioned by range of
//! subscriber numbers.
//!
//! The columns of a subscriber that transactions change come first. There are no nulls.

use schema::{HashPlan, IndexKind, Partitioning, Row, Schema, Table, TableOptions, Text};
use serde::{Deserialize, Serialize};

use super::spec::{DIGITS, Tatp};

/// SUBSCRIBER.
#[derive(Row, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[row(key(part, s_id), unique_index(by_number(part, sub_nbr)))]
pub struct Subscriber {
    /// The range of subscribers.
    pub part: u16,
    /// BIT_1.
    pub bit_1: u8,
    /// BIT_2 to BIT_10.
    pub bits: [u8; 9],
    /// S_ID.
    pub s_id: u32,
    /// VLR_LOCATION.
    pub vlr_location: u32,
    /// MSC_LOCATION.
    pub msc_location: u32,
    /// HEX_1 to HEX_10, below 16.
    pub hexes: [u8; 10],
    /// BYTE2_1 to BYTE2_10.
    pub bytes: [u8; 10],
    /// SUB_NBR: S_ID in decimal digits.
    pub sub_nbr: Text<DIGITS>,
}

/// The columns that GetAccessData reads.
#[derive(schema::Value, Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AccessData {
    /// DATA1.
    pub data1: u8,
    /// DATA2.
    pub data2: u8,
    /// DATA3.
    pub data3: Text<3>,
    /// DATA4.
    pub data4: Text<5>,
}

/// ACCESS_INFO.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(part, s_id, ai_type))]
pub struct AccessInfo {
    /// The range of subscribers.
    pub part: u16,
    /// AI_TYPE, 1 to 4.
    pub ai_type: u8,
    /// S_ID.
    pub s_id: u32,
    /// DATA1 to DATA4.
    pub data: AccessData,
}

/// SPECIAL_FACILITY.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(part, s_id, sf_type))]
pub struct SpecialFacility {
    /// The range of subscribers.
    pub part: u16,
    /// SF_TYPE, 1 to 4.
    pub sf_type: u8,
    /// IS_ACTIVE.
    pub is_active: bool,
    /// S_ID.
    pub s_id: u32,
    /// ERROR_CNTRL.
    pub error_cntrl: u8,
    /// DATA_A.
    pub data_a: u8,
    /// DATA_B.
    pub data_b: Text<5>,
}

/// CALL_FORWARDING.
#[derive(Row, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[row(key(part, s_id, sf_type, start_time))]
pub struct CallForwarding {
    /// The range of subscribers.
    pub part: u16,
    /// SF_TYPE.
    pub sf_type: u8,
    /// START_TIME: 0, 8 or 16.
    pub start_time: u8,
    /// S_ID.
    pub s_id: u32,
    /// END_TIME: 1 to 8 hours later.
    pub end_time: u8,
    /// NUMBERX.
    pub numberx: Text<DIGITS>,
}

/// The tables.
#[derive(Clone, Copy)]
pub struct Tables {
    /// SUBSCRIBER.
    pub subscriber: Table<Subscriber>,
    /// ACCESS_INFO.
    pub access_info: Table<AccessInfo>,
    /// SPECIAL_FACILITY.
    pub special_facility: Table<SpecialFacility>,
    /// CALL_FORWARDING.
    pub call_forwarding: Table<CallForwarding>,
}

impl Tables {
    /// Declares all tables. Indexes without range scans are hash indexes.
    pub(super) fn create(tatp: &Tatp, schema: &mut impl Schema) -> Self {
        let options = |rows_a_subscriber: f64, kinds| TableOptions {
            rows: (f64::from(tatp.subscribers) * rows_a_subscriber) as u64,
            partitioning: Some(Partitioning { first: 0, count: tatp.parts }),
            kinds,
            ..TableOptions::default()
        };
        let hash = || vec![IndexKind::Hash(HashPlan::Mixed)];
        Tables {
            subscriber: schema.table("subscriber", options(1.0, hash())),
            access_info: schema.table("access_info", options(2.5, hash())),
            special_facility: schema.table("special_facility", options(2.5, Vec::new())),
            call_forwarding: schema.table("call_forwarding", options(3.75, Vec::new())),
        }
    }
}
