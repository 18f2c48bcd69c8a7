import Broker

/// Reads the members of a JSON request by name and collects every fault, so that they are named together.
///
/// Read all members, then call `finish`: what was never read is unknown. Values are not repeated in faults (SEC-107).
struct RequestObject {
    private let object: JSONObject
    private var faults: [FieldFault]
    private var read: Set<String> = []

    /// The most faults that one answer names.
    private static let maximumFaults = 32

    /// Parses a body; throws `invalid_request` for what is no JSON object.
    init(parsing bytes: [UInt8], maximumBytes: Int) throws(BrokerProblem) {
        let result: JSONParser.Result
        do throws(JSONFailure) { result = try JSONParser.parse(bytes, maximumBytes: maximumBytes) } catch {
            throw BrokerProblem(
                .invalidRequest, detail: "The body is not JSON as this service reads it.",
                privateDetail: error.reason.rawValue, errors: [FieldFault("", .malformed)])
        }
        guard let object = result.value.object else {
            throw BrokerProblem(
                .invalidRequest, detail: "The body is not a JSON object.", errors: [FieldFault("", .wrongType)])
        }
        self.object = object
        faults = result.duplicates.map { FieldFault(Self.bounded($0), .duplicate) }
    }

    /// Adds a fault that the reader found by itself.
    mutating func fault(_ name: String, _ code: FieldFault.Code) {
        faults.append(FieldFault(JSONPointer.make([name]), code))
    }

    /// Throws everything that was found wrong.
    consuming func finish() throws(BrokerProblem) {
        let unknown = object.names.filter { !read.contains($0) }
        let all = faults + unknown.map { FieldFault(Self.bounded(JSONPointer.make([$0])), .unknown) }
        guard all.isEmpty else {
            throw BrokerProblem(.invalidRequest, errors: Array(all.prefix(Self.maximumFaults)))
        }
    }

    /// Returns a member that may be missing, whatever its type.
    mutating func value(_ name: String) -> JSONValue? {
        read.insert(name)
        return object[name]
    }

    /// Returns a string of at most `maximum` bytes without control characters; nil when missing or faulty.
    mutating func text(_ name: String, maximum: Int, minimum: Int = 1) -> String? {
        guard let value = value(name) else { return nil }
        guard case .string(let text) = value else {
            fault(name, .wrongType)
            return nil
        }
        let count = text.utf8.count
        guard count <= maximum else {
            fault(name, .tooLong)
            return nil
        }
        guard count >= minimum else {
            fault(name, .tooShort)
            return nil
        }
        guard text.unicodeScalars.allSatisfy({ $0.value >= 0x20 && !(0x7F...0x9F).contains($0.value) }) else {
            fault(name, .malformed)
            return nil
        }
        return text
    }

    /// Returns a string that has to be there.
    mutating func requiredText(_ name: String, maximum: Int, minimum: Int = 1) -> String? {
        if object[name] == nil { fault(name, .required) }
        return text(name, maximum: maximum, minimum: minimum)
    }

    /// Returns a secret.
    mutating func secret(_ name: String, maximum: Int, minimum: Int = 1) -> Secret? {
        text(name, maximum: maximum, minimum: minimum).map { Secret($0) }
    }

    /// Returns a secret of base64url characters only.
    mutating func token(_ name: String, length: ClosedRange<Int>) -> Secret? {
        guard let text = text(name, maximum: length.upperBound, minimum: length.lowerBound) else { return nil }
        guard Base64URL.isToken(text, length: length) else {
            fault(name, .malformed)
            return nil
        }
        return Secret(text)
    }

    /// Returns a configured name.
    mutating func name<Name: ConfiguredName>(_ member: String, as type: Name.Type = Name.self) -> Name? {
        guard let text = text(member, maximum: 63) else { return nil }
        guard let name = Name(text) else {
            fault(member, .malformed)
            return nil
        }
        return name
    }

    /// Returns a configured name that has to be there.
    mutating func requiredName<Name: ConfiguredName>(_ member: String, as type: Name.Type = Name.self) -> Name? {
        if object[member] == nil { fault(member, .required) }
        return name(member)
    }

    /// Returns an array of strings.
    mutating func texts(_ name: String, maximumItems: Int, maximum: Int) -> [String]? {
        guard let value = value(name) else { return nil }
        guard case .array(let items) = value else {
            fault(name, .wrongType)
            return nil
        }
        guard items.count <= maximumItems else {
            fault(name, .tooLong)
            return nil
        }
        var texts: [String] = []
        for (index, item) in items.enumerated() {
            guard case .string(let text) = item else {
                faults.append(FieldFault(JSONPointer.make([name, String(index)]), .wrongType))
                continue
            }
            guard (1...maximum).contains(text.utf8.count) else {
                faults.append(
                    FieldFault(JSONPointer.make([name, String(index)]), text.isEmpty ? .tooShort : .tooLong))
                continue
            }
            guard text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
                faults.append(FieldFault(JSONPointer.make([name, String(index)]), .malformed))
                continue
            }
            texts.append(text)
        }
        return texts
    }

    /// Returns an object's members, each judged by `check`, which returns what is wrong with it.
    mutating func members(
        _ name: String, maximumMembers: Int, check: (JSONValue) -> FieldFault.Code?
    ) -> [(name: String, value: JSONValue)]? {
        guard let value = value(name) else { return nil }
        guard case .object(let object) = value else {
            fault(name, .wrongType)
            return nil
        }
        guard object.members.count <= maximumMembers else {
            fault(name, .tooLong)
            return nil
        }
        for member in object.members {
            let pointer = Self.bounded(JSONPointer.make([name, member.name]))
            if member.name.isEmpty || member.name.utf8.count > 128 {
                faults.append(FieldFault(pointer, .malformed))
            } else if let code = check(member.value) {
                faults.append(FieldFault(pointer, code))
            }
        }
        return object.members
    }

    /// Names are the client's words: enough of one to find it, no more.
    private static func bounded(_ pointer: String) -> String { String(pointer.prefix(128)) }
}
