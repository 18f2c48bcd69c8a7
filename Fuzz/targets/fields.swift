// uses: BrokerHTTP/Parsing/Credentials.swift BrokerHTTP/Limits/ClientAddress.swift
// uses: BrokerWire/Message/FramingRules.swift BrokerWire/Message/Authority.swift BrokerWire/Connection/ServerConnection.swift
// uses: BrokerWire/Connection/ConnectionLimits.swift BrokerWire/Connection/ProgressRate.swift
import Broker

private let proxies = ["10.0.0.0/8", "::1", "2001:db8::/32"].compactMap { IPNetwork($0) }

/// The other fields of a request that are parsed: an `Authorization`, an authority, then `X-Forwarded-For` lines.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    var input = Input(start, count)
    if case .bearer(let secret) = Authorization(input.line()) {
        precondition(secret.reveal().utf8.allSatisfy { (0x21...0x7E).contains($0) })
    }
    let host = input.line()
    if let authority = Authority(host) { precondition(!authority.host.isEmpty && (authority.port ?? 0) <= 99_999) }
    _ = IPNetwork(host)
    var hops: [String] = []
    while !input.isEmpty { hops.append(input.line()) }
    let peer = IPAddress("10.1.2.3")
    let client = ClientAddress(peer: peer, peerText: "10.1.2.3", forwardedFor: hops, trusted: proxies)
    precondition(client.address != nil)
    return 0
}
