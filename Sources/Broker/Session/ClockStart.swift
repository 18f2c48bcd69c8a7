/// Names what a process finds out about its clock when it begins, from the last time that the store has seen.
package enum ClockStart: Sendable, Equatable {
    case believed
    /// More than a day beyond: lapses are believed, and nothing is buried for a day.
    case uncertain
    /// More than a week beyond: no lapse is believed for an hour, and no session begins where the store has no clock of its
    /// own.
    case doubted
    /// Behind, which no clock can be that is right: the same, until it has caught up.
    case behind
    /// It is not the store's own, which is taken in its place.
    case off
}
