import Broker

/// Reads the members of a JSON request by name and collects all faults, so that one answer names them together.
///
/// Read all members, then call `finish`, which reports every unread member as unknown. Faults never repeat a value
/// (SEC-107).
struct RequestObject {
    private let object: JSONObject
    /// The names of the members that lead from the body to this object, for the pointers of faults.
    private let path: [String]
    private var faults: [FieldFault]
    private var read: [String] = []

    /// The largest number of faults that one answer names.
    private static let maximumFaults = 32
    /// The largest number of members of each object in a body.
    private static let maximumMembers = 256
    /// The size limit of a body in bytes, divided by this number, is the largest number of JSON values in the body.
    ///
    /// A limit of 64 KiB allows 4,096 values. Values inside objects and lists count too.
    private static let bytesOfValue = 16

    /// Parses a body; throws `invalid_request` unless it is a JSON object.
    init(parsing bytes: [UInt8], maximumBytes: Int) throws(BrokerProblem) {
        let result: JSONParser.Result
        do throws(JSONFailure) {
            result = try JSONParser.parse(
                bytes, maximumBytes: maximumBytes, maximumMembers: Self.maximumMembers,
                maximumValues: maximumBytes / Self.bytesOfValue)
        } catch {
            throw BrokerProblem(
                .invalidRequest, detail: "The body is not JSON as this service reads it.",
                privateDetail: error.reason.rawValue,
                with: .fields([FieldFault("", error.reason == .tooManyMembers ? .tooLong : .malformed)]))
        }
        guard let object = result.value.object else {
            throw BrokerProblem(
                .invalidRequest, detail: "The body is not a JSON object.", with: .fields([FieldFault("", .wrongType)]))
        }
        self.object = object
        path = []
        faults = result.duplicates.map { FieldFault(Self.bounded($0), .duplicate) }
    }

    private init(_ object: JSONObject, path: [String]) {
        self.object = object
        self.path = path
        faults = []
    }

    /// Adds a fault for a member.
    mutating func fault(_ name: String, _ code: FieldFault.Code) {
        faults.append(FieldFault(Self.bounded(JSONPointer.make(path + [name])), code))
    }

    /// Throws all faults that were found.
    consuming func finish() throws(BrokerProblem) {
        let all = allFaults
        guard all.isEmpty else { throw BrokerProblem(.invalidRequest, with: .fields(all)) }
    }

    /// All faults, but at most as many as an answer names.
    ///
    /// The search stops at this number.
    private var allFaults: [FieldFault] {
        let unknown = object.members.lazy.map(\.name).filter { name in !read.contains { $0.hasBytes(of: name) } }
        let named = faults.prefix(Self.maximumFaults)
        return named
            + unknown.prefix(Self.maximumFaults - named.count).map {
                FieldFault(Self.bounded(JSONPointer.make(path + [$0])), .unknown)
            }
    }

    /// Returns whether the member is present, with any value.
    func contains(_ name: String) -> Bool { object[name] != nil }

    private mutating func value(_ name: String, required: Bool) -> JSONValue? {
        read.append(name)
        let value = object[name]
        if required, value == nil { fault(name, .required) }
        return value
    }

    /// Returns a string member of the given length, if `allows` accepts all its characters; nil if it is missing or faulty.
    mutating func text(
        _ name: String, required: Bool = false, length: ClosedRange<Int>,
        where allows: (Unicode.Scalar) -> Bool = RequestText.isPrintable
    ) -> String? {
        guard let value = value(name, required: required) else { return nil }
        guard case .string(let text) = value else {
            fault(name, .wrongType)
            return nil
        }
        if let code = RequestText.fault(in: text, length: length, where: allows) {
            fault(name, code)
            return nil
        }
        return text
    }

    /// Returns a whole number in the given range; nil if it is missing or faulty.
    mutating func integer(_ name: String, required: Bool = false, in range: ClosedRange<Int64>) -> Int64? {
        guard let value = value(name, required: required) else { return nil }
        guard case .number = value else {
            fault(name, .wrongType)
            return nil
        }
        guard let number = value.integer, range.contains(number) else {
            fault(name, .malformed)
            return nil
        }
        return number
    }

    /// Returns a Boolean member; false if it is missing or faulty.
    mutating func flag(_ name: String) -> Bool {
        guard let value = value(name, required: false) else { return false }
        if value.bool == nil { fault(name, .wrongType) }
        return value.bool ?? false
    }

    /// Returns a secret that another party made: 1–4096 visible ASCII characters.
    mutating func opaque(_ name: String, required: Bool = false) -> Secret? {
        text(name, required: required, length: 1...4096, where: RequestText.isVisible).map { Secret($0) }
    }

    /// Returns a secret of base64url characters.
    mutating func token(_ name: String, required: Bool = false, length: ClosedRange<Int>) -> Secret? {
        text(name, required: required, length: length, where: RequestText.isBase64URL).map { Secret($0) }
    }

    /// Returns a member that is a name in the configuration, for example a provider's; nil if it is missing or faulty.
    mutating func name<Name: ConfiguredName>(_ member: String, required: Bool = false) -> Name? {
        guard let text = text(member, required: required, length: 1...63) else { return nil }
        guard let name = Name(text) else {
            fault(member, .malformed)
            return nil
        }
        return name
    }

    /// Returns the members of an object; `check` returns the fault of a member's value.
    mutating func members(
        _ name: String, required: Bool = false, maximum: Int, check: (JSONValue) -> FieldFault.Code?
    ) -> [(name: String, value: JSONValue)]? {
        guard let value = value(name, required: required) else { return nil }
        guard case .object(let object) = value else {
            fault(name, .wrongType)
            return nil
        }
        guard object.members.count <= maximum else {
            fault(name, .tooLong)
            return nil
        }
        for member in object.members {
            let code =
                RequestText.fault(in: member.name, length: 1...64, where: RequestText.isNamePart)
                ?? check(member.value)
            if let code {
                faults.append(FieldFault(Self.bounded(JSONPointer.make(path + [name, member.name])), code))
            }
        }
        return object.members
    }

    /// Reads an object member with `body`, which gets a second reader for the object.
    ///
    /// The faults of the second reader are added to the faults of this reader.
    mutating func object<Value>(_ name: String, _ body: (inout RequestObject) -> Value?) -> Value? {
        guard let value = value(name, required: false) else { return nil }
        guard case .object(let object) = value else {
            fault(name, .wrongType)
            return nil
        }
        var inner = RequestObject(object, path: path + [name])
        let result = body(&inner)
        faults += inner.allFaults
        return result
    }

    /// Reads a list of objects with `body`, which gets a further reader for each object.
    ///
    /// The faults of the further readers are added to the faults of this reader.
    mutating func list<Value>(
        _ name: String, required: Bool, maximum: Int, _ body: (inout RequestObject) -> Value?
    ) -> [Value]? {
        guard let value = value(name, required: required) else { return nil }
        guard case .array(let items) = value else {
            fault(name, .wrongType)
            return nil
        }
        guard items.count <= maximum else {
            fault(name, .tooLong)
            return nil
        }
        var found: [Value] = []
        for (index, item) in items.enumerated() {
            // An answer names at most `maximumFaults` faults, so the remaining items need no check.
            guard faults.count < Self.maximumFaults else { break }
            guard case .object(let object) = item else {
                fault(JSONPointer.make([name, String(index)]), .wrongType)
                continue
            }
            var inner = RequestObject(object, path: path + [name, String(index)])
            if let value = body(&inner) { found.append(value) }
            faults += inner.allFaults
        }
        return found
    }

    /// Shortens a pointer, because the client chose the names in it.
    private static func bounded(_ pointer: String) -> String { pointer.firstScalars(128) }
}
