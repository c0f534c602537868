#![no_std]
//! optfilter
