// uses: BrokerWire/Message/FramingRules.swift BrokerWire/Message/FramingRefusal.swift BrokerWire/Message/Authority.swift
// uses: BrokerWire/Connection/ServerConnection.swift BrokerWire/Connection/ConnectionLimits.swift
// uses: BrokerWire/Connection/ConnectionTimes.swift BrokerWire/Connection/ProgressRate.swift
import NIOHTTP1

/// Checks the framing of request heads in the decoder's form: a target, then one field in each line.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    var input = Input(start, count)
    let version = HTTPVersion(major: 1, minor: Int(input.byte() & 1))
    let target = input.line()
    var fields: [(name: String, value: String)] = []
    while !input.isEmpty {
        let line = input.line()
        guard let colon = line.firstIndex(of: ":") else { continue }
        fields.append((String(line[..<colon]), String(line[line.index(after: colon)...])))
    }
    var head = HTTPRequestHead(version: version, uri: target, headers: HTTPHeaders(fields))
    func values(_ name: String) -> [String] { fields.filter { $0.name.lowercased() == name }.map(\.value) }
    let verdict = FramingRules.check(head)
    if case .nameless(let summary) = verdict {
        precondition(version.minor == 0 && summary.closes && !summary.hasBody)
        precondition(["host", "content-length", "transfer-encoding"].allSatisfy { values($0).isEmpty })
    }
    guard case .pass(_, let path) = verdict else { return 0 }
    if let path { head.uri = path }
    precondition(head.uri.hasPrefix("/") && head.uri.utf8.allSatisfy { (0x21...0x7E).contains($0) })
    precondition(values("host").count == 1 && values("host").allSatisfy { Authority($0) != nil })
    precondition(values("content-length").count + values("transfer-encoding").count <= 1)
    precondition(values("transfer-encoding").allSatisfy { version.minor == 1 && $0.lowercased() == "chunked" })
    return 0
}
