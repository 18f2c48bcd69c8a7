// uses: BrokerRelay/CanonicalPath.swift BrokerRelay/RelayTarget.swift BrokerRelay/AllowList.swift
// uses: BrokerRelay/UpstreamFault.swift BrokerRelay/UpstreamFaults.swift
import Broker

private let entry = try? AllowEntry("GET /v3.0/*/items/**")

/// Parses targets of the relay: splits, normalizes and matches them.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    var input = Input(start, count)
    let text = input.text()
    _ = try? AllowEntry(text)
    guard let target = RelayTarget(text.hasPrefix("/") ? RelayTarget.prefix + "api" + text : text) else { return 0 }
    if let query = target.query.flatMap({ CanonicalQuery($0) }) {
        precondition(CanonicalQuery(query.text[...]) == query)
        precondition(query.text.utf8.allSatisfy { (0x21...0x7E).contains($0) && $0 != UInt8(ascii: "#") })
    }
    guard let path = try? CanonicalPath(target.path) else { return 0 }
    // Normalizing a second time changes nothing. No segment is empty or `..`, because a server could read such a path as
    // another path.
    precondition((try? CanonicalPath(path.text[...])) == path)
    precondition(path.text.hasPrefix("/") && path.text.utf8.allSatisfy { (0x21...0x7E).contains($0) })
    precondition(!path.text.contains("//") && !path.text.contains("/../") && !path.text.hasSuffix("/.."))
    _ = entry?.allows(path: path)
    return 0
}
