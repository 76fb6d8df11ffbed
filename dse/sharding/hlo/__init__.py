"""The factor rules of HLO's operations: one table by opcode, and the rules by what operations do."""
