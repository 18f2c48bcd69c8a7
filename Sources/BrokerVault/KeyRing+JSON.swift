package import Broker

extension KeyRing {
    /// Parses a key file, strictly:
    /// `{"version":1,"index":{"key":"…"},"keys":[{"id":"k…","key":"…","created":"2026-11-20T21:00:00Z"}]}`; a key may have
    /// `seals_from`, a time like `created`.
    package static func parse(_ json: [UInt8]) throws(KeyRingFailure) -> KeyRing {
        let root: JSONObject
        do throws(JSONFailure) {
            root = try JSONParser.parseObject(json, maximumBytes: 65_536, maximumDepth: 4)
        } catch { throw .notJSON(reason: error.reason.rawValue, byte: error.offset) }
        try requireMembers(root, ["version", "index", "keys"], at: "")
        guard root["version"]?.integer == 1 else { throw .unsupportedVersion }
        guard let indexObject = root["index"]?.object else { throw .member("/index") }
        try requireMembers(indexObject, ["key"], at: "/index")
        let index = try key(indexObject["key"], place: "index", at: "/index/key")
        guard let items = root["keys"]?.array else { throw .member("/keys") }
        var keys: [Key] = []
        for (position, item) in items.enumerated() {
            let pointer = "/keys/\(position)"
            guard let object = item.object else { throw .member(pointer) }
            try requireMembers(object, ["id", "key", "created"], optional: ["seals_from"], at: pointer)
            guard let id = object["id"]?.string, isKeyID(id) else { throw .member("\(pointer)/id") }
            guard let text = object["created"]?.string, let created = time(text) else {
                throw .member("\(pointer)/created")
            }
            let sealsFrom = object["seals_from"]?.string.flatMap { time($0) }
            guard object["seals_from"] == nil || sealsFrom != nil else { throw .member("\(pointer)/seals_from") }
            keys.append(
                Key(
                    id: id, key: try key(object["key"], place: id, at: "\(pointer)/key"), created: created,
                    sealsFrom: sealsFrom))
        }
        return try KeyRing(index: index, keys: keys)
    }

    /// Writes the key file.
    ///
    /// The bytes are secret: they belong in a file of mode 0600 and nowhere else.
    package func json() -> Secret {
        var writer = JSONWriter(capacity: 256)
        writer.object { writer in
            writer.member("version", 1)
            writer.name("index")
            writer.object { $0.member("key", Self.text(index)) }
            writer.name("keys")
            writer.array { writer in
                for key in keys {
                    writer.object { writer in
                        writer.member("id", key.id)
                        writer.member("key", Self.text(key.key))
                        writer.member("created", key.created.rfc3339)
                        if let time = key.sealsFrom { writer.member("seals_from", time.rfc3339) }
                    }
                }
            }
        }
        return Secret(String(decoding: writer.bytes, as: UTF8.self) + "\n")
    }

    private static func text(_ key: SecretBytes) -> String {
        let length = key.count
        return key.withBytes { Base64URL.encode(UnsafeBufferPointer(start: $0, count: length)) }
    }

    private static func requireMembers(
        _ object: JSONObject, _ names: [String], optional: [String] = [], at pointer: String
    ) throws(KeyRingFailure) {
        for name in names where object[name] == nil { throw .member("\(pointer)/\(name)") }
        // An unknown member may be a misspelt one; its name is the file's, so it is not repeated at length.
        let known = names + optional
        for name in object.names where !known.contains(name) { throw .member("\(pointer)/\(name.prefix(32))") }
    }

    private static func key(
        _ value: JSONValue?, place: String, at pointer: String
    ) throws(KeyRingFailure) -> SecretBytes {
        guard let text = value?.string else { throw .member(pointer) }
        guard var bytes = Base64URL.decode(text) else { throw .notBase64URL(place: place) }
        defer { wipe(&bytes) }
        guard bytes.count == keyLength else { throw .wrongLength(place: place, bytes: bytes.count) }
        return SecretBytes(bytes)
    }

    /// Returns whether a key id is `k` and up to 31 further base64url characters.
    private static func isKeyID(_ id: String) -> Bool {
        id.hasPrefix("k") && Base64URL.isToken(id, length: 2...32)
    }

    /// Parses exactly what `WallTime.rfc3339` writes.
    private static func time(_ text: String) -> WallTime? {
        let bytes = Array(text.utf8)
        guard bytes.count == 20 else { return nil }
        func number(_ range: Range<Int>) -> Int64? {
            var value: Int64 = 0
            for byte in bytes[range] {
                guard (0x30...0x39).contains(byte) else { return nil }
                value = value * 10 + Int64(byte - 0x30)
            }
            return value
        }
        guard let year = number(0..<4), let month = number(5..<7), let day = number(8..<10),
            let hour = number(11..<13), let minute = number(14..<16), let second = number(17..<19),
            (1...12).contains(month)
        else { return nil }
        // Days since 1970 in the proleptic Gregorian calendar, the year beginning in March.
        let shiftedYear = month <= 2 ? year - 1 : year
        let era = (shiftedYear >= 0 ? shiftedYear : shiftedYear - 399) / 400
        let yearOfEra = shiftedYear - era * 400
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        let days = era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
        let time = WallTime(seconds: days * 86_400 + hour * 3600 + minute * 60 + second)
        // Written again it must be the same text, which refuses the 30th of February and every odd separator.
        return time.rfc3339 == text ? time : nil
    }
}
