import Broker
import BrokerWire

/// The media type of a route's body, and the only one that the route accepts (SEC-45).
enum MediaType: String {
    case json = "application/json"
    case form = "application/x-www-form-urlencoded"

    /// Returns whether a `Content-Type` is this media type.
    ///
    /// The parameters of the field are ignored, and the body is always UTF-8 (decision 86).
    func matches(_ value: String) -> Bool {
        var type = value.utf8.prefix { $0 != UInt8(ascii: ";") }
        while let last = type.last, last == 0x20 || last == 0x09 { type.removeLast() }
        while let first = type.first, first == 0x20 || first == 0x09 { type.removeFirst() }
        return Substring(type).isASCIIEqual(to: rawValue)
    }

    /// Returns the beginning of a `Content-Type` for the log, reduced to safe bytes.
    static func logged(_ value: String) -> String {
        let bytes = value.utf8.prefix(64).filter { byte in
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x20: true
            default: "/;=,+-._".utf8.contains(byte)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
