// uses: BrokerProviders/JOSE/JSONWebKey.swift BrokerProviders/JOSE/CompactToken.swift
// uses: BrokerProviders/JOSE/SignatureAlgorithm.swift
import Broker

/// Parses a provider's public key, which is an entry of a key set.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    var input = Input(start, count)
    guard let object = try? JSONParser.parseObject(input.bytes(), maximumBytes: 65_536),
        let key = JSONWebKey(object)
    else { return 0 }
    let sizes = [key.first, key.second].map { Base64URL.decode($0)?.count }
    switch (key.keyType, key.curve) {
    case ("RSA", nil): precondition((256...).contains(sizes[0] ?? 0) && (1...4).contains(trimmed(key.second)))
    case ("EC", "P-256"?): precondition(sizes == [32, 32])
    case ("EC", "P-384"?): precondition(sizes == [48, 48])
    case ("EC", "P-521"?): precondition(sizes == [66, 66])
    case ("OKP", "Ed25519"?): precondition(sizes == [32, 0])
    default: preconditionFailure("a key of another type was taken")
    }
    let fitting = SignatureAlgorithm.allCases.filter(key.fits)
    precondition(fitting.allSatisfy { $0.keyType == key.keyType } && (key.algorithm == nil || fitting.count <= 1))
    precondition(object.present("use").map { $0.string == "sig" || $0.string == "" || $0.array == [] } ?? true)
    // If the key's numbers are written without leading zeros, they give the same key.
    let members = [("RSA", ["n", "e"]), ("EC", ["x", "y"]), ("OKP", ["x"])].first { $0.0 == key.keyType }?.1 ?? []
    let plain = object.members.map { member in
        guard let index = members.firstIndex(of: member.name) else { return member }
        return (name: member.name, value: JSONValue.string([key.first, key.second][index]))
    }
    let again = JSONWebKey(JSONObject(plain))
    precondition(again?.first == key.first && again?.second == key.second && again?.keyID == key.keyID)
    return 0
}

/// Returns the length in bytes of a number in base64url, without its leading zeros.
private func trimmed(_ text: String) -> Int { Base64URL.decode(text)?.drop { $0 == 0 }.count ?? 0 }
